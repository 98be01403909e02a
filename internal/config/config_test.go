package config_test

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"

	"aliquot/internal/config"
)

type settings struct {
	nodeID   string
	expect   int
	insecure bool
	lease    time.Duration
	join     []string
}

func flags(s *settings) *pflag.FlagSet {
	fs := pflag.NewFlagSet("test", pflag.ContinueOnError)
	fs.String("config", "", "")
	fs.Bool("version", false, "")
	fs.StringVar(&s.nodeID, "node-id", "default-id", "")
	fs.IntVar(&s.expect, "bootstrap-expect", 3, "")
	fs.BoolVar(&s.insecure, "insecure", false, "")
	fs.DurationVar(&s.lease, "lease", 10*time.Second, "")
	fs.StringSliceVar(&s.join, "join", []string{"default:1"}, "")
	return fs
}

func load(t *testing.T, yaml string, environ, args []string) (settings, error) {
	t.Helper()
	var s settings
	fs := flags(&s)
	if err := fs.Parse(args); err != nil {
		t.Fatal(err)
	}
	file := ""
	if yaml != "" {
		file = filepath.Join(t.TempDir(), "c.yaml")
		if err := os.WriteFile(file, []byte(yaml), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	err := config.Load(fs, file, environ)
	if err != nil && file != "" {
		return s, shortened{err, filepath.Dir(file) + "/"}
	}
	return s, err
}

// shortened is an error without the temporary directory in its text.
type shortened struct {
	error
	dir string
}

func (s shortened) Error() string { return strings.ReplaceAll(s.error.Error(), s.dir, "") }

func TestPrecedence(t *testing.T) {
	yaml := "node_id: from-file\nbootstrap-expect: 5\nlease: 3s\njoin: [a:1, b:2]\ninsecure: true\n"
	environ := []string{"HOME=/x", "ALIQUOT_NODE_ID=old", "ALIQUOT_NODE_ID=from-env", "ALIQUOT_LEASE=4s", "ALIQUOT_PORT=tcp://1.2.3.4:1"}
	s, err := load(t, yaml, environ, []string{"--lease=5s", "--join=c:3,d:4"})
	if err != nil {
		t.Fatal(err)
	}
	if s.nodeID != "from-env" || s.expect != 5 || s.lease != 5*time.Second || !s.insecure {
		t.Errorf("got %+v", s)
	}
	if !slices.Equal(s.join, []string{"c:3", "d:4"}) {
		t.Errorf("join = %v; the command line should win", s.join)
	}
}

func TestFileOfAnotherEditor(t *testing.T) {
	s, err := load(t, "\ufeffnode_id: c1\r\nlease: 3s\r\n", nil, nil)
	if err != nil || s.nodeID != "c1" || s.lease != 3*time.Second {
		t.Errorf("a file with a byte order mark and CRLF: %v, %+v", err, s)
	}
}

func TestDefaultsStay(t *testing.T) {
	for _, yaml := range []string{"", "# nothing\n", "---\n"} {
		s, err := load(t, yaml, nil, nil)
		if err != nil {
			t.Fatalf("%q: %v", yaml, err)
		}
		if s.nodeID != "default-id" || s.lease != 10*time.Second || !slices.Equal(s.join, []string{"default:1"}) {
			t.Errorf("%q: got %+v", yaml, s)
		}
	}
}

func TestLists(t *testing.T) {
	for _, c := range []struct {
		yaml, env string
		want      []string
	}{
		{yaml: "join: a:1, b:2\n", want: []string{"a:1", "b:2"}},
		{yaml: "join:\n  - a:1\n  - \"b,c\"\n", want: []string{"a:1", "b,c"}},
		{yaml: "join: []\n", want: []string{}},
		{yaml: "join: \"\"\n", want: []string{}},
		{yaml: "join: [1, true]\n", want: []string{"1", "true"}},
		{env: "ALIQUOT_JOIN=x:1,y:2", want: []string{"x:1", "y:2"}},
		{yaml: "join: [a:1]\n", env: "ALIQUOT_JOIN=x:1", want: []string{"x:1"}},
	} {
		s, err := load(t, c.yaml, []string{c.env}, nil)
		if err != nil {
			t.Errorf("%q: %v", c.yaml, err)
		} else if !slices.Equal(s.join, c.want) {
			t.Errorf("%q %q: got %v, want %v", c.yaml, c.env, s.join, c.want)
		}
	}
}

func TestRefusedFiles(t *testing.T) {
	for _, c := range []struct{ name, yaml, want string }{
		{"unknown", "node-id: a\nnode-di: b\n", `c.yaml:2:1: unknown field "node-di"; did you mean "node-id"?`},
		{"unknown with underscore", "bootstrap_expct: 3\n", `c.yaml:1:1: unknown field "bootstrap_expct"; did you mean "bootstrap-expect"?`},
		{"nothing near", "colour: red\n", `c.yaml:1:1: unknown field "colour"; --help lists the known ones`},
		{"not a setting", "version: true\n", `c.yaml:1:1: unknown field "version"; --help lists the known ones`},
		{"wrong int", "node-id: a\nbootstrap-expect: many\n", `c.yaml:2:19: bootstrap-expect: "many" is not a valid whole number`},
		{"fraction", "bootstrap-expect: 1.5\n", `c.yaml:1:19: bootstrap-expect: "1.5" is not a valid whole number`},
		{"duration without unit", "lease: 10\n", `c.yaml:1:8: lease: "10" is not a valid duration; write it with a unit, like "10s" or "500ms"`},
		{"wrong bool", "insecure: perhaps\n", `c.yaml:1:11: insecure: "perhaps" is not a valid true or false`},
		{"list for one", "node-id: [a, b]\n", `c.yaml:1:10: node-id: takes one string, not a list`},
		{"nested", "node-id: {a: b}\n", `c.yaml:1:10: node-id: takes a plain value or a list of them, not a nested one`},
		{"null", "node-id:\n", `node-id: has no value; give one or remove the line`},
		{"anchor", "node-id: &a x\n", `anchors, aliases and tags are not supported`},
		{"twice in two spellings", "node-id: a\nnode_id: b\n", `c.yaml:2:1: field "node_id" is given twice`},
		{"twice", "node-id: a\nnode-id: b\n", `c.yaml:2:1: `},
		{"not a mapping", "- a\n", `c.yaml:1:1: expected settings`},
		{"two documents", "node-id: a\n---\nnode-id: b\n", `c.yaml:3:`},
		{"syntax", "node-id: [a\n", `c.yaml:1:`},
		{"overridden but wrong", "lease: banana\n", `c.yaml:1:8: lease: "banana" is not a valid duration`},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := load(t, c.yaml, nil, []string{"--lease=1s"})
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v\nwant %s", err, c.want)
			}
		})
	}
}

func TestEveryProblemIsReported(t *testing.T) {
	_, err := load(t, "nope: 1\nlease: x\n", nil, nil)
	if err == nil || strings.Count(err.Error(), "\n") != 1 || !strings.Contains(err.Error(), "c.yaml:2:8") {
		t.Errorf("got %v", err)
	}
	_, err = load(t, strings.Repeat("zzz", 40)+": 1\n", nil, nil)
	if err == nil || len(err.Error()) > 200 {
		t.Errorf("a long name should be cut: %v", err)
	}
}

func TestRefusedEnvironment(t *testing.T) {
	_, err := load(t, "", []string{"ALIQUOT_BOOTSTRAP_EXPECT=x"}, nil)
	want := `environment ALIQUOT_BOOTSTRAP_EXPECT: "x" is not a valid whole number`
	if err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}

func TestUnreadableFile(t *testing.T) {
	var s settings
	if err := config.Load(flags(&s), filepath.Join(t.TempDir(), "none.yaml"), nil); err == nil || !strings.Contains(err.Error(), "--config") {
		t.Errorf("missing file: got %v", err)
	}
	if _, err := load(t, "# "+strings.Repeat("x", 1<<20)+"\n", nil, nil); err == nil || !strings.Contains(err.Error(), "right file") {
		t.Errorf("huge file: got %v", err)
	}
}

// The variable that names the file is in the error: it names another kind of file to aliquot.
func TestFileOfTheEnvironment(t *testing.T) {
	file := filepath.Join(t.TempDir(), "contexts.yaml")
	if err := os.WriteFile(file, []byte("current: prod\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	const names = "\nenvironment ALIQUOT_CONFIG names the file, which must have the settings of this daemon; the contexts of aliquot are another file"
	for _, flag := range []bool{false, true} {
		var s settings
		fs := flags(&s)
		if err := fs.Parse(map[bool][]string{true: {"--config=" + file}}[flag]); err != nil {
			t.Fatal(err)
		}
		err := config.Load(fs, file, []string{"ALIQUOT_CONFIG=" + file})
		if err == nil || strings.HasSuffix(err.Error(), names) == flag {
			t.Errorf("by the flag %t: %v", flag, err)
		}
	}
}

func TestFile(t *testing.T) {
	var s settings
	fs := flags(&s)
	environ := []string{"ALIQUOT_CONFIG=/env.yaml"}
	if got := config.File(fs, environ); got != "/env.yaml" {
		t.Errorf("got %q", got)
	}
	if err := fs.Parse([]string{"--config=/flag.yaml"}); err != nil {
		t.Fatal(err)
	}
	if got := config.File(fs, environ); got != "/flag.yaml" {
		t.Errorf("got %q; the flag should win", got)
	}
	if got := config.File(flags(&s), nil); got != "" {
		t.Errorf("got %q, want none", got)
	}
}

// A variable that is almost one of ours is an error. Those of orchestrators, and of other people, are not.
func TestMisspeltVariables(t *testing.T) {
	for variable, want := range map[string]string{
		"ALIQUOT_LOG_LEVLE": "ALIQUOT_LOG_LEVEL", "ALIQUOT_NODEID": "ALIQUOT_NODE_ID", "ALIQUOT_BOOTSTRAP_EXPECTED": "ALIQUOT_BOOTSTRAP_EXPECT",
		"ALIQUOT_log_level": "ALIQUOT_LOG_LEVEL", "ALIQUOT_REDDIS": "ALIQUOT_REDIS", "ALIQUOT_ADR": "ALIQUOT_ADDR",
		"ALIQUOT_REDSI": "ALIQUOT_REDIS", "ALIQUOT_REGOIN": "ALIQUOT_REGION", "ALIQUOT_TRUSTED_PROXY": "ALIQUOT_TRUSTED_PROXIES",
		"ALIQUOT_REDIS_URL": "ALIQUOT_REDIS", "ALIQUOT_LISTEN_ADDRESS": "ALIQUOT_LISTEN", "ALIQUOT_RULES_FILE": "ALIQUOT_RULES",
	} {
		err := config.CheckEnvironment([]string{"HOME=/x", variable + "=1"})
		if err == nil || !strings.Contains(err.Error(), "environment "+variable+": ") || !strings.Contains(err.Error(), "did you mean "+want+"?") {
			t.Errorf("%s: %v", variable, err)
		}
	}
	for _, variable := range []string{
		"ALIQUOT_LOG_LEVEL", "ALIQUOT_REGION", "ALIQUOT_REGIONS", "ALIQUOT_PORT", "ALIQUOT_SERVICE_HOST", "ALIQUOT_SERVICE_PORT_OPS", "ALIQUOT_JOIN_PORT",
		"ALIQUOT_PORT_7400_TCP_ADDR", "ALIQUOT_REGIONAL_SERVICE_PORT", "ALIQUOT_REDIS_PORT", "ALIQUOT_VERSION", "ALIQUOT_HOST", "ALIQUOT_API_KEY",
		"ALIQUOT_CONFIG_CHECKSUM", "ALIQUOT_IMAGE", "ALIQUOT_", "ALIQUOT",
	} {
		if err := config.CheckEnvironment([]string{variable + "=1"}); err != nil {
			t.Errorf("%v", err)
		}
	}
}

// A program knows its own flags without being told in another place. Another program does not, and takes one
// for foreign or, if it is almost one that it knows, for a misspelt one.
func TestVariablesOfTheProgramsOwnFlags(t *testing.T) {
	for _, of := range []struct {
		variable, want string
		flags          []string
	}{
		{"ALIQUOT_LINE_LISTEN", "", []string{"line-listen"}},
		{"ALIQUOT_LINE_LISTEN", "", nil},
		{"ALIQUOT_LINE_LISTN", "did you mean ALIQUOT_LINE_LISTEN?", []string{"line-listen"}},
		{"ALIQUOT_LINE_LISTN", "", nil},
		{"ALIQUOT_RULE", "", []string{"rule"}},
		{"ALIQUOT_RULE", "did you mean ALIQUOT_RULES?", nil},
	} {
		err := config.CheckEnvironment([]string{of.variable + "=1"}, of.flags...)
		if of.want == "" && err != nil || of.want != "" && (err == nil || !strings.Contains(err.Error(), of.want)) {
			t.Errorf("%s with the flags %q: got %v, want %q", of.variable, of.flags, err, of.want)
		}
	}
	fs := pflag.NewFlagSet("program", pflag.ContinueOnError)
	fs.String("rule", "", "")
	if err := config.Load(fs, "", []string{"ALIQUOT_RULE=x"}); err != nil || fs.Lookup("rule").Value.String() != "x" {
		t.Errorf("the program's own flag: %v", err)
	}
}

// An error found after loading names the place that set the value.
func TestLocate(t *testing.T) {
	var s settings
	fs := flags(&s)
	if err := fs.Parse([]string{"--bootstrap-expect=7"}); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "c.yaml")
	if err := os.WriteFile(file, []byte("node-id: c1\nbootstrap-expect: 5\njoin: [a]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := config.Load(fs, file, []string{"ALIQUOT_JOIN=b"}); err != nil {
		t.Fatal(err)
	}
	for message, want := range map[string]string{
		`--node-id "c1": is taken`:                    file + `:1:10: --node-id "c1": is taken`,
		"--bootstrap-expect 7: is even":               "--bootstrap-expect 7: is even",
		"--join b: no port":                           "environment ALIQUOT_JOIN: --join b: no port",
		"--lease and --node-id differ":                file + ":1:10: --lease and --node-id differ",
		"--lease is short, --node-id is not":          "--lease is short, --node-id is not",
		"wrong\n--join b: no port\n--lease 1s: short": "wrong\nenvironment ALIQUOT_JOIN: --join b: no port\n--lease 1s: short",
	} {
		if got := config.Locate(fs, errors.New(message)); got.Error() != want {
			t.Errorf("%q became %q, want %q", message, got, want)
		}
	}
	if config.Locate(fs, nil) != nil {
		t.Error("no error became one")
	}
}
