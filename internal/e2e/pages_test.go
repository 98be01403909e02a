package e2e

import (
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"net"
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
	kept    bool // in a terminal of its own, until the page ends
	output  string
}

// ownTerminal is an indented line whose program runs in a terminal of its own.
var ownTerminal = regexp.MustCompile(`^    (?:caddy|nginx|go build|bin/coordinator|bin/regional) `)

// steps are the commands of the console blocks: "$ " begins one for a shell, "> " one that is typed. A
// command that ends in a backslash goes on in the next line. Between them are the indented lines of
// programs that go on running.
func steps(page string) (out []shownStep) {
	inside, goesOn := false, false
	for line := range strings.Lines(page) {
		line = strings.TrimRight(line, "\n")
		if strings.HasPrefix(line, "```") {
			inside = line == "```console"
			continue
		}
		if !inside && (goesOn || ownTerminal.MatchString(line)) {
			if !goesOn {
				out = append(out, shownStep{kept: true})
			}
			line = strings.TrimPrefix(line, "    ")
			out[len(out)-1].command += strings.TrimSuffix(line, `\`)
			goesOn = strings.HasSuffix(line, `\`)
		}
		if !inside {
			continue
		}
		command, shell := strings.CutPrefix(line, "$ ")
		typed := false
		if !shell {
			command, typed = strings.CutPrefix(line, "> ")
		}
		switch {
		case goesOn:
			out[len(out)-1].command += "\n" + line
		case shell || typed:
			out = append(out, shownStep{command: command, typed: typed})
		default:
			out[len(out)-1].output += line + "\n"
			continue
		}
		goesOn = strings.HasSuffix(line, `\`)
	}
	return out
}

// reads is a command that changes nothing, or that is refused without a change, so it is asked until it
// says what it should: what it shows takes a moment to come about.
var reads = regexp.MustCompile(`aliquot (cluster (status|members|remove)|region list|rules (show|history)|budget get|explain)|/metrics|/readyz`)

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
		b.WriteString(`\s*` + strings.Join(words, `\s+`) + `[ \t\r]*\n`)
	}
	b.WriteString(`$`)
	return regexp.MustCompile(b.String())
}

// terminals run a page: in a folder with bin/ and the files of deploy/, every port moved so that
// pages do not meet.
type terminals struct {
	dev      *Process // `make run`; nil where the page says `make up`, or neither
	keyboard *os.File
	dir      string
	offset   int
	files    map[string]string // that the page has its reader write
	ports    map[string]string // of the proxies and services that pages start
	env      []string
}

// pagePort is a port as the pages and the files of deploy/ write it: of a daemon, a Redis, a proxy or a
// service.
var pagePort = regexp.MustCompile(`\b(7[456]\d\d|8080|9000)\b`)

// moved is a text with the ports of this run.
func (u *terminals) moved(text string) string {
	return pagePort.ReplaceAllStringFunc(text, func(text string) string {
		if port, fixed := u.ports[text]; fixed {
			return port
		}
		port, _ := strconv.Atoi(text)
		return strconv.Itoa(port + u.offset)
	})
}

// do runs one step and returns what was printed.
func (u *terminals) do(t *testing.T, s shownStep) string {
	t.Helper()
	if s.typed {
		return u.enter(t, s.command)
	}
	text := u.moved(s.command)
	if s.kept {
		u.keep(t, text)
		return ""
	}
	cmd := exec.CommandContext(t.Context(), "sh", "-c", text)
	cmd.Dir, cmd.Env = u.dir, u.env
	out, _ := cmd.Output() // an exit code may say that a request is denied
	if text := string(out); strings.HasSuffix(text, "\n") || text == "" {
		return text
	}
	return string(out) + "\n"
}

// enter types a line into `aliquot dev` and returns the line that it answers, without what is logged.
func (u *terminals) enter(t *testing.T, line string) string {
	t.Helper()
	before, err := os.ReadFile(u.dev.log)
	if err != nil {
		t.Fatal(err)
	}
	fmt.Fprintln(u.keyboard, line)
	var answer string
	err = until(t.Context(), 20*time.Second, "an answer", func() error {
		text, err := os.ReadFile(u.dev.log)
		if err != nil {
			return err
		}
		for line := range strings.Lines(string(text[len(before):])) {
			if !strings.HasPrefix(line, "time=") && strings.HasSuffix(line, "\n") {
				answer = line
				return nil
			}
		}
		return errors.New("nothing is printed")
	})
	if err != nil {
		t.Error(err)
	}
	return answer
}

// keep runs a command in a terminal of its own until the page ends, and waits until proxies and services
// listen.
func (u *terminals) keep(t *testing.T, command string) {
	t.Helper()
	build, program, builds := strings.Cut(command, " && ")
	if !builds {
		build, program = "true", command
	}
	p := newProcess(t.TempDir(), "background", "sh", "-c", fmt.Sprintf("cd %s && %s && exec %s", u.dir, build, program))
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Kill9() })
	listens := "8080" // a proxy, or a service with the middleware
	switch {
	case strings.Contains(command, "respond"):
		listens = "9000"
	case strings.HasPrefix(command, "bin/"):
		listens = "" // what comes next asks until it answers
	}
	if port := u.ports[listens]; port != "" {
		err := until(t.Context(), 60*time.Second, "listening on "+listens, func() error {
			conn, err := net.Dial("tcp", "127.0.0.1:"+port)
			if err == nil {
				conn.Close()
			}
			return err
		})
		if err != nil {
			t.Fatalf("%s: %v\n%s", command, err, p.Tail())
		}
	}
}

// TestPages does all that the tutorial and the how-to pages say, in their order, and wants what they show.
func TestPages(t *testing.T) {
	pages, err := filepath.Glob("../../docs/how-to/*.md")
	if err != nil {
		t.Fatal(err)
	}
	ran := 0
	for _, file := range append(pages, "../../docs/tutorial.md") {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		all := steps(string(text))
		if len(all) == 0 {
			continue
		}
		ran += len(all)
		t.Run(strings.TrimSuffix(filepath.Base(file), ".md"), func(t *testing.T) { runPage(t, string(text), all) })
	}
	if ran < 80 {
		t.Errorf("the pages have %d commands; are they written otherwise now?", ran)
	}
}

func runPage(t *testing.T, page string, all []shownStep) {
	u := newTerminals(t, page)
	for _, s := range all {
		shown := s.output
		if !s.typed {
			shown = u.moved(shown)
		}
		want := shape(shown)
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
}

var (
	// devLine starts three regions in one process: the page says so in an indented line.
	devLine = regexp.MustCompile(`(?m)^    (?:make run|bin/aliquot dev( .*)?)$`)
	upLine  = regexp.MustCompile(`(?m)^    make up$`)
	// pageFile is a file that the page has its reader write.
	pageFile = regexp.MustCompile("(?s)`([\\w.-]+)`:\n\n```\\w*\n(.*?)```")
)

// newTerminals makes the folder with the page's files and starts what the page starts first.
func newTerminals(t *testing.T, page string) *terminals {
	t.Helper()
	u := &terminals{dir: t.TempDir(), files: map[string]string{}, ports: map[string]string{"8080": freePort(t), "9000": freePort(t)}}
	if err := os.Symlink(bin, filepath.Join(u.dir, "bin")); err != nil {
		t.Fatal(err)
	}
	start := devLine.FindStringSubmatch(page)
	for _, m := range pageFile.FindAllStringSubmatch(page, -1) {
		u.files[m[1]] = m[2]
	}
	switch {
	case start != nil:
		u.run(t, strings.ReplaceAll(start[1], " ", "\n"))
	case upLine.MatchString(page):
		u.up(t)
		u.write(t)
	default:
		t.Fatal("the page neither says `make run` nor `make up`")
	}
	u.env = append(os.Environ(), "XDG_CONFIG_HOME="+u.dir,
		fmt.Sprintf("ALIQUOT_REGION_ADDR=127.0.0.1:%d", 7500+u.offset), fmt.Sprintf("ALIQUOT_ADDR=127.0.0.1:%d", 7400+u.offset))
	return u
}

// run is `make run`, with flags, which may name files of the page.
func (u *terminals) run(t *testing.T, flags string) {
	t.Helper()
	in, keyboard, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { in.Close(); keyboard.Close() })
	u.keyboard = keyboard
	u.write(t) // a file of rules has to be there first
	words := strings.Fields(flags)
	for i, word := range words {
		if file := filepath.Join(u.dir, word); strings.HasSuffix(word, ".yaml") {
			words[i] = file
		}
	}
	u.dev = startDevReading(t, in, func(offset int) { u.offset = offset }, words...)
	u.copyDeploy(t)
	u.write(t)
}

// write writes the page's files, with the ports of this run and the place of these sources.
func (u *terminals) write(t *testing.T) {
	t.Helper()
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range u.files {
		text = strings.ReplaceAll(u.moved(text), "=> ../aliquot", "=> "+root)
		if err := os.WriteFile(filepath.Join(u.dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// up is `make up`: Redis servers, coordinators and regions as processes.
func (u *terminals) up(t *testing.T) {
	t.Helper()
	for try := range 5 {
		u.offset = 1000 + rand.IntN(20_000)
		u.copyDeploy(t)
		cmd := exec.Command(filepath.Join(u.dir, "deploy/local/up.sh"))
		out, err := cmd.CombinedOutput()
		if err == nil {
			break
		}
		if !strings.Contains(string(out), "in use") || try == 4 {
			t.Fatalf("up.sh: %v\n%s", err, out)
		}
	}
	t.Cleanup(func() {
		if out, err := exec.Command(filepath.Join(u.dir, "deploy/local/down.sh")).CombinedOutput(); err != nil {
			t.Errorf("down.sh: %v\n%s", err, out)
		}
	})
}

// copyDeploy copies deploy/local and the proxies' examples with the ports of this run.
func (u *terminals) copyDeploy(t *testing.T) {
	t.Helper()
	for _, folder := range []string{"deploy/local", "deploy/examples/caddy", "deploy/examples/nginx"} {
		from := os.DirFS(filepath.Join("..", "..", folder))
		err := fs.WalkDir(from, ".", func(path string, entry fs.DirEntry, err error) error {
			to := filepath.Join(u.dir, folder, path)
			if err != nil || entry.IsDir() {
				return errors.Join(err, os.MkdirAll(to, 0o700))
			}
			text, err := fs.ReadFile(from, path)
			if err != nil {
				return err
			}
			return os.WriteFile(to, []byte(u.moved(string(text))), 0o700)
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

// TestTheInstallationIsThatOfTheFiles: each command of run-it-for-real.md is a line of the files in deploy/, which
// tools/deploycheck runs.
func TestTheInstallationIsThatOfTheFiles(t *testing.T) {
	page, err := os.ReadFile("../../docs/how-to/run-it-for-real.md")
	if err != nil {
		t.Fatal(err)
	}
	var deploy strings.Builder
	err = filepath.WalkDir("../../deploy", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		text, err := os.ReadFile(path)
		deploy.Write(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for line := range strings.Lines(string(page)) {
		if command, indented := strings.CutPrefix(strings.TrimRight(line, "\n"), "    "); indented {
			found++
			if !strings.Contains(deploy.String(), command) {
				t.Errorf("no file of deploy/ says %q", command)
			}
		}
	}
	if found < 10 {
		t.Errorf("the page has %d commands; are they written otherwise now?", found)
	}
}
