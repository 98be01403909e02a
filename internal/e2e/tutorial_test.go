package e2e

import (
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"
)

// shownStep is one command of a page's console blocks, with the output that the page shows.
type shownStep struct {
	command string
	typed   bool // into the terminal of `aliquot dev`, not into a shell
	output  string
}

// steps are the commands of the console blocks: "$ " begins one for a shell, "> " one that is typed.
func steps(page string) (out []shownStep) {
	inside := false
	for line := range strings.Lines(page) {
		line = strings.TrimRight(line, "\n")
		if strings.HasPrefix(line, "```") {
			inside = line == "```console"
			continue
		}
		if !inside {
			continue
		}
		command, shell := strings.CutPrefix(line, "$ ")
		typed := false
		if !shell {
			command, typed = strings.CutPrefix(line, "> ")
		}
		if shell || typed {
			out = append(out, shownStep{command: command, typed: typed})
			continue
		}
		out[len(out)-1].output += line + "\n"
	}
	return out
}

// reads is a command that changes nothing, so it is asked until it says what it should: what it
// shows takes a moment to come about.
var reads = regexp.MustCompile(`aliquot (region list|rules history|budget get|explain)|/metrics`)

// varying is what differs from run to run: times, durations, hashes.
var varying = regexp.MustCompile(`\d{4}-\d\d-\d\dT\S+Z|\b(\d+h)?(\d+m)?\d+(\.\d+)?(ms|µs|s)\b|\b[\w-]{22}\b`)

// shape is the pattern of an output as a page shows it: three dots are any text, a line of three
// dots any lines, and what varies is left out. Columns may be wider or narrower.
func shape(shown string) *regexp.Regexp {
	var b strings.Builder
	b.WriteString(`^`)
	for line := range strings.Lines(shown) {
		line = strings.TrimSpace(line)
		if line == "..." {
			b.WriteString(`(.*\n)*`)
			continue
		}
		var words []string
		for _, word := range strings.Fields(varying.ReplaceAllString(line, "\x00")) {
			word = regexp.QuoteMeta(word)
			word = strings.ReplaceAll(word, "\x00", `(`+varying.String()+`)`)
			words = append(words, strings.ReplaceAll(word, `\.\.\.`, `.*`))
		}
		b.WriteString(strings.Join(words, `\s+`) + `[ \t\r]*\n`)
	}
	b.WriteString(`$`)
	return regexp.MustCompile(b.String())
}

// tutorial is the page's four terminals.
type tutorial struct {
	dev       *Process
	keyboard  *os.File
	offset    int
	dir       string
	addresses *strings.Replacer // of the proxy and the service, as the page has them
	env       []string
}

// do runs one step and returns what was printed.
func (u *tutorial) do(t *testing.T, s shownStep) string {
	t.Helper()
	if s.typed {
		before := len(u.dev.Tail())
		fmt.Fprintln(u.keyboard, s.command)
		var said string
		err := until(t.Context(), 5*time.Second, "an answer", func() error {
			if said = u.dev.Tail()[before:]; !strings.Contains(said, "\n") {
				return errors.New("nothing is printed")
			}
			return nil
		})
		if err != nil {
			t.Error(err)
		}
		said, _, _ = strings.Cut(said, "\n") // warnings may follow
		return said + "\n"
	}
	command := documentedPort.ReplaceAllStringFunc(u.addresses.Replace(s.command), func(text string) string {
		port, _ := strconv.Atoi(text)
		return strconv.Itoa(port + u.offset)
	})
	cmd := exec.CommandContext(t.Context(), "sh", "-c", command)
	cmd.Dir, cmd.Env = u.dir, u.env
	out, _ := cmd.Output() // an exit code may say that a request is denied
	if text := string(out); strings.HasSuffix(text, "\n") || text == "" {
		return text
	}
	return string(out) + "\n"
}

// TestTutorial does all that docs/tutorial.md says, in its order, and wants what it shows.
func TestTutorial(t *testing.T) {
	text, err := os.ReadFile("../../docs/tutorial.md")
	if err != nil {
		t.Fatal(err)
	}
	page := string(text)
	u := newTutorial(t, page)
	all := steps(page)
	for _, s := range all {
		want := shape(s.output)
		out := ""
		err := until(t.Context(), 40*time.Second, s.command, func() error {
			if out = u.do(t, s); want.MatchString(out) {
				return nil
			}
			if !reads.MatchString(s.command) {
				return nil // it is not to be done twice
			}
			return errors.New("not yet")
		})
		if err != nil || !want.MatchString(out) {
			t.Errorf("%s\nprints\n%s\nand the page shows\n%s", s.command, out, s.output)
		}
	}
	if len(all) < 15 {
		t.Errorf("the page has %d commands; are they written otherwise now?", len(all))
	}
}

// newTutorial opens the four terminals.
func newTutorial(t *testing.T, page string) *tutorial {
	t.Helper()
	in, keyboard, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { in.Close(); keyboard.Close() })
	u := &tutorial{keyboard: keyboard, dir: t.TempDir()}
	u.dev = startDevReading(t, in, func(int) {})
	at, err := url.Parse(curl.FindStringSubmatch(u.dev.Tail())[1])
	if err != nil {
		t.Fatal(err)
	}
	port, err := strconv.Atoi(at.Port())
	if err != nil {
		t.Fatal(err)
	}
	u.offset = port - firstRegion
	u.env = append(os.Environ(), "XDG_CONFIG_HOME="+u.dir, "ALIQUOT_REGION_ADDR="+at.Host,
		fmt.Sprintf("ALIQUOT_ADDR=127.0.0.1:%d", 7400+u.offset))
	if err := os.Symlink(bin, filepath.Join(u.dir, "bin")); err != nil {
		t.Fatal(err)
	}
	_, rules, _ := strings.Cut(page, "```yaml\n")
	rules, _, _ = strings.Cut(rules, "```")
	if err := os.WriteFile(filepath.Join(u.dir, "orders.yaml"), []byte(rules), 0o600); err != nil {
		t.Fatal(err)
	}
	// The page's third and fourth terminal, at free ports.
	for _, line := range []string{
		"    make run\n",
		"    caddy respond --listen 127.0.0.1:9000 \"hello from the service\"\n",
		"    caddy run --config deploy/examples/caddy/Caddyfile\n",
	} {
		if !strings.Contains(page, line) {
			t.Errorf("the page does not say %q any more", line)
		}
	}
	backend, front := freePort(t), freePort(t)
	startProxy(t, backend, "caddy", "respond", "--listen", "127.0.0.1:"+backend, "hello from the service")
	config, err := os.ReadFile("../../deploy/examples/caddy/Caddyfile")
	if err != nil {
		t.Fatal(err)
	}
	moved := strings.NewReplacer("127.0.0.1:7500", at.Host, "127.0.0.1:9000", "127.0.0.1:"+backend, ":8080", ":"+front).Replace(string(config))
	file := filepath.Join(u.dir, "Caddyfile")
	if err := os.WriteFile(file, []byte(moved), 0o600); err != nil {
		t.Fatal(err)
	}
	startProxy(t, front, "caddy", "run", "--adapter", "caddyfile", "--config", file)
	u.addresses = strings.NewReplacer("127.0.0.1:8080", "127.0.0.1:"+front)
	return u
}
