package cli

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"aliquot/internal/cli/console"
	"aliquot/internal/config"
)

// An error on a command line names what is wrong, and what is accepted or was meant.
func TestMistakesOnTheCommandLine(t *testing.T) {
	for line, want := range map[string]string{
		"check --cost x a=1":                    `invalid argument "x" for "--cost" flag: give a whole number`,
		"check --cost 99999999999999999999 a=1": `for "--cost" flag: give a whole number that is not so large`,
		"check --timeout 5 a=1":                 `invalid argument "5" for "--timeout" flag: give a duration such as 5s`,
		"bench rotate --rate fast":              `for "--rate" flag: give a number`,
		"check --cots 3 a=1":                    "there is no flag --cots; did you mean --cost?",
		"check --quite-another a=1":             "there is no flag --quite-another",
		"chek":                                  "there is no command 'aliquot chek'; did you mean 'aliquot check'?",
		"rules aply":                            "did you mean 'aliquot rules apply'?",
		"something":                             "there is no command 'aliquot something'; one of allow, bench",
		"check":                                 "give the attributes of the request as key=value",
		"check a=1 -o rules.yaml":               "give table, json or yaml (import writes a file with --write FILE)",
		"region weight us-east -1":              "there is no flag -1; write -- before arguments that begin with a hyphen",
		"check -x a=1":                          "there is no flag -x",
		"bench load --addr 127.0.0.1:7510":      "--addr: bench load asks no coordinator; name the daemon with --target 127.0.0.1:7510",
	} {
		got := command(t, "", strings.Fields(line)...)
		got.want(t, exitUsage)
		if !strings.Contains(got.err, want) || strings.Contains(got.err, "strconv") {
			t.Errorf("%s: %s, want %s", line, got.err, want)
		}
	}
}

func TestVersionAndHelp(t *testing.T) {
	command(t, "", "version").want(t, exitOK, "aliquot "+config.Release, "go1.")
	command(t, "", "--version").want(t, exitOK, "aliquot "+config.Release)
	command(t, "", "version", "-o", "json").want(t, exitOK, `"platform":`)
	command(t, "", "--help").want(t, exitOK, "Requests, asked of a region:", "Rules, and what takes precedence over them:", "The cluster:", "To try it out, and to size it:")
}

// The output format is no file name.
func TestImportWritesJSONToStandardOutput(t *testing.T) {
	file := "domain: shop\ndescriptors: [{key: tenant, rate_limit: {unit: second, requests_per_unit: 5}}]\n"
	t.Chdir(t.TempDir())
	command(t, file, "import", "envoy-ratelimit", "-", "--output", "json").want(t, exitOK, `{"rules":1,"yaml":"`)
	if left, _ := filepath.Glob("*"); len(left) != 0 {
		t.Errorf("files were written: %v", left)
	}
	command(t, file, "import", "envoy-ratelimit", "-", "--write", "rules.yaml").want(t, exitOK)
	if left, _ := filepath.Glob("*"); len(left) != 1 || left[0] != "rules.yaml" {
		t.Errorf("%v", left)
	}
}

// The examples of bench step and bench flood are complete: what they leave open is asked of a
// coordinator.
func TestStepAndFloodAskForTheLimit(t *testing.T) {
	nobody := unused(t)
	for _, load := range []string{"step", "flood"} {
		if got := command(t, "", "bench", load, "--regions", nobody+","+nobody[:len(nobody)-1], "--addr", nobody); got.code != exitError || strings.Contains(got.err, "--capacity") {
			t.Errorf("%s: %+v", load, got)
		}
	}
}

func TestContextsThatNoCommandCouldUse(t *testing.T) {
	t.Setenv(console.ConfigVar, filepath.Join(t.TempDir(), "contexts.yaml"))
	for _, c := range []struct{ name, flag, address, want string }{
		{"a b", "--coordinators", "x:7400", `context "a b": give a name without spaces`},
		{"", "--coordinators", "x:7400", "give a name"},
		{"a", "--coordinators", "x", `--coordinators "x": give host:port or a URL`},
		{"a", "--regions", "x:7500,y", `--regions "y": give host:port or a URL`},
		{"a", "--ops", ":7503", `--ops ":7503": give host:port or a URL`},
	} {
		command(t, "", "context", "set", c.name, c.flag, c.address).want(t, exitUsage, c.want)
	}
	command(t, "", "context", "set", "a", "--coordinators", "https://c1,c2:7400", "--regions", "unix:///run/aliquot").want(t, exitOK)
}

// A file of another kind is refused with the variable that names it.
func TestContextsOfTheEnvironment(t *testing.T) {
	file := filepath.Join(t.TempDir(), "regional.yaml")
	if err := os.WriteFile(file, []byte("region: us\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv(console.ConfigVar, file)
	if got := command(t, "", "context", "list"); got.code != exitError || !strings.Contains(got.err, "which ALIQUOT_CONFIG names: it must be a file that 'aliquot context' writes") {
		t.Errorf("%+v", got)
	}
}

// The flag comes first, then a context that a flag names, the environment, and the context in
// use. Of several addresses the first that takes a connection is asked.
func TestWhichAddressIsAsked(t *testing.T) {
	t.Setenv(console.ConfigVar, filepath.Join(t.TempDir(), "contexts.yaml"))
	asks := func(want string, args ...string) {
		t.Helper()
		got := command(t, "", append(args, "--timeout", "5m")...)
		if got.code != exitError || !strings.Contains(got.err, want) {
			t.Errorf("%v: %+v, want %s", args, got, want)
		}
	}
	stranger := httptest.NewServer(http.NotFoundHandler()) // takes connections, and is no coordinator
	defer stranger.Close()
	heard := stranger.Listener.Addr().String()
	one, two, three := unused(t), unused(t), unused(t)
	command(t, "", "context", "set", "here", "--coordinators", one, "--regions", two).want(t, exitOK)
	command(t, "", "context", "set", "there", "--coordinators", three+","+heard).want(t, exitOK)
	asks(one, "budget", "list")
	asks(two, "check", "a=1")
	asks(heard, "budget", "list", "--context", "there")
	asks(three, "budget", "list", "--addr", three)
	t.Setenv(console.AddrVar, three)
	asks(three, "budget", "list")
	asks(three, "check", "a=1")
	asks(one, "budget", "list", "--context", "here")
	t.Setenv(console.RegionVar, one)
	asks(one, "check", "a=1")
	t.Setenv(console.AddrVar, three+", "+heard)
	asks(heard, "budget", "list")
	command(t, "", "context", "use", "there").want(t, exitOK)
	command(t, "", "context", "list").want(t, exitOK, "there    yes", one)
	command(t, "", "context", "remove", "there").want(t, exitOK)
	command(t, "", "context", "use", "there").want(t, exitError)
	command(t, "", "budget", "list", "--context", "there").want(t, exitUsage)
}

// A shell completes rules, regions, versions and entries from the cluster that is asked, and
// nothing where nobody answers.
func completions(t *testing.T, coordinator string) {
	complete := func(want string, args ...string) {
		t.Helper()
		got := command(t, "", append(append([]string{"__complete", "--addr", coordinator}, args...), "")...)
		if got.code != exitOK || !strings.Contains(got.out, want) || !strings.HasSuffix(got.out, ":4\n") {
			t.Errorf("%v: %+v, want %s", args, got, want)
		}
	}
	complete("per-key\n", "budget", "get")
	complete("per-key\n", "override")
	complete("us-east\n", "region", "drain")
	complete("1\n", "rules", "rollback")
	complete("1\n", "rules", "show", "--version")
	complete("override\n", "entries", "remove")
	if got := command(t, "", "__complete", "budget", "get", "--addr", unused(t), ""); got.out != ":4\n" {
		t.Errorf("%+v", got)
	}
}
