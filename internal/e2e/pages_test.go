package e2e

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
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
// command goes on in the next line after a backslash, in an open quote, and in a loop until its "done". Between them are the
// indented lines of programs that go on running.
func steps(page string) (out []shownStep) {
	inside, goesOn, loop := false, false, false
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
		loop = (loop || strings.HasSuffix(line, "; do")) && !strings.HasSuffix(line, "done")
		goesOn = loop || strings.HasSuffix(line, `\`) || strings.Count(out[len(out)-1].command, "'")%2 == 1
	}
	return out
}

// reads is a command that changes nothing, or that is refused without a change, so it is asked until it
// says what it should: what it shows takes a moment to come about.
var reads = regexp.MustCompile(`aliquot (cluster (status|members|remove)|region list|rules (show|history)|budget get|explain)|/metrics|/readyz`)

// changes is a command that waits for a commit, which on a busy machine can take longer than its usual patience.
var changes = regexp.MustCompile(`bin/aliquot (?:rules (?:apply|rollback|promote|abort)|block|allow|unlist|override|entries \w+|snapshot restore)`)

// varying is what differs from run to run: times, durations, hashes.
var varying = regexp.MustCompile(`\d{4}-\d\d-\d\dT\S+Z|\b(\d+h)?(\d+m)?\d+(\.\d+)?(ms|µs|s)\b|\b[\w-]{22}\b`)

// measured is a number of a benchmark's table, which differs from run to run, and does not stand in a word.
var measured = regexp.MustCompile(`\b\d[\d.]*\b`)

// varies matches what varies where a text has it. A hash may begin with a hyphen, which begins no word.
var varies = `(` + strings.ReplaceAll(varying.String(), `\b`, ``) + `)`

// shapeOf is the shape of what a step shows. The figures that a benchmark measures are left out.
func shapeOf(s shownStep, shown string) *regexp.Regexp {
	head, table, found := strings.Cut(shown, "\n\n")
	if found && strings.Contains(s.command, "aliquot bench ") {
		shown = head + "\n\n" + measured.ReplaceAllString(table, "...")
	}
	return shape(shown)
}

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
			word = strings.ReplaceAll(word, "\x00", varies)
			words = append(words, strings.ReplaceAll(word, `\.\.\.`, `.*`))
		}
		text, then := strings.Join(words, `\s+`), ""
		if strings.HasPrefix(line, "allowed (store)") { // or not: on a busy machine the store may miss a deadline
			text, then = strings.Replace(text, `\(store\)`, `\((store|emergency)\)`, 1), `(degraded: .*\n)?`
		}
		b.WriteString(`\s*` + text + `[ \t\r]*\n` + then)
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
	told     string // what the latest command wrote to its standard error
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
	if strings.Contains(text, "aliquot bench ") && !strings.Contains(text, "--regions") {
		text += u.moved(" --regions 127.0.0.1:7500,127.0.0.1:7510,127.0.0.1:7520") // the ports without an offset, where it is not told any
	}
	cmd := exec.CommandContext(t.Context(), "sh", "-c", changes.ReplaceAllString(text, "$0 --timeout 1m"))
	cmd.Dir, cmd.Env = u.dir, u.env
	var told strings.Builder
	cmd.Stderr = &told
	out, _ := cmd.Output() // an exit code may say that a request is denied
	u.told = told.String()
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
	err = Until(t.Context(), ReadyWithin, "an answer", func() error {
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
	p := NewProcess(t.TempDir(), "background", "sh", "-c", fmt.Sprintf("cd %s && %s && exec %s", u.dir, build, program))
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { // nginx ends its workers only when it ends by itself
		if p.Running() {
			p.Terminate()
		}
	})
	listens := "8080" // a proxy, or a service with the middleware
	switch {
	case strings.Contains(command, "respond"):
		listens = "9000"
	case strings.HasPrefix(command, "bin/"):
		listens = "" // what comes next asks until it answers
	}
	if port := u.ports[listens]; port != "" {
		err := Until(t.Context(), ReadyWithin, "listening on "+listens, func() error {
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

// pages are the documents whose commands are run: the README, the tutorial, the how-to pages, and what the
// reference shows of the front doors.
func pages(t *testing.T) []string {
	t.Helper()
	found, err := filepath.Glob("../../docs/how-to/*.md")
	if err != nil {
		t.Fatal(err)
	}
	return append(found, "../../README.md", "../../docs/tutorial.md", "../../docs/reference/http.md", "../../docs/reference/reserve.md")
}

// TestPages does all that the pages say, in their order, and wants what they show.
func TestPages(t *testing.T) {
	t.Parallel()
	ran := 0
	for _, file := range pages(t) {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		all := steps(string(text))
		if len(all) == 0 {
			continue
		}
		ran += len(all)
		t.Run(strings.TrimSuffix(filepath.Base(file), ".md"), func(t *testing.T) {
			t.Parallel()
			runPage(t, string(text), all)
		})
	}
	if ran < 110 {
		t.Errorf("the pages have %d commands; are they written otherwise now?", ran)
	}
}

// fenced is a block of code that is no console.
var fenced = regexp.MustCompile("(?s)\n```(?:\\w*)\n.*?\n```\n")

// TestEveryCommandOfThePagesIsRun: an indented line, which is how a page writes a command without its output, is
// one that TestPages starts, or that the installation has.
func TestEveryCommandOfThePagesIsRun(t *testing.T) {
	for _, file := range pages(t) {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		goesOn := false
		for line := range strings.Lines(fenced.ReplaceAllString(string(text), "\n")) {
			line = strings.TrimRight(line, "\n")
			if !strings.HasPrefix(line, "    ") {
				continue
			}
			started := goesOn || devLine.MatchString(line) || upLine.MatchString(line) || ownTerminal.MatchString(line)
			goesOn = started && strings.HasSuffix(line, `\`)
			if !started && !strings.Contains(installation(t), strings.TrimSpace(line)) {
				t.Errorf("%s: nothing runs %q: write it as a console block with its output", file, line)
			}
		}
	}
}

// pageClient is an API key in a loop of a page, without what tells its tries apart.
var pageClient = regexp.MustCompile(`\b(sk_\d)(?:x\d+)?\b`)

// slow is how long a loop of checks may take whose last one is denied for what the others have used: tokens flow in
// meanwhile. One that took longer is done again for another client.
const slow = 500 * time.Millisecond

func runPage(t *testing.T, page string, all []shownStep) {
	u := newTerminals(t, page)
	for _, s := range all {
		shown := s.output
		if !s.typed {
			shown = u.moved(shown)
		}
		want := shapeOf(s, shown)
		out, tries := "", 0
		err := Until(t.Context(), ReadyWithin, s.command, func() error {
			began := time.Now()
			if out = u.do(t, s); want.MatchString(out) {
				return nil
			}
			switch {
			case reads.MatchString(s.command), strings.Contains(u.told, "; retry"),
				strings.HasPrefix(out, "denied (") && strings.HasPrefix(s.output, "allowed ("): // which changes nothing
				return errors.New("not yet")
			case strings.HasPrefix(s.command, "for ") && time.Since(began) > slow:
				tries++
				s.command = pageClient.ReplaceAllString(s.command, fmt.Sprintf("${1}x%d", tries))
				return errors.New("it took too long")
			}
			return nil // it is not to be done twice
		})
		if err != nil || !want.MatchString(out) {
			t.Errorf("%s\nprints\n%s\n%s\nand the page shows\n%s", s.command, out, u.told, s.output)
		}
		if strings.Contains(s.command, "--compare") {
			withinBounds(t, out)
		}
	}
}

// withinBounds wants that no line of `bench rotate --compare` is above its bound.
func withinBounds(t *testing.T, table string) {
	t.Helper()
	column, rows := -1, 0
	for line := range strings.Lines(table) {
		cells := regexp.MustCompile(`\s{2,}`).Split(strings.TrimSpace(line), -1)
		if column < 0 {
			column = slices.Index(cells, "OF BOUND")
			continue
		}
		part, err := strconv.ParseFloat(cells[column], 64)
		if err != nil || part <= 0 || part > 1 {
			t.Errorf("%v of the bound: %s", part, line)
		}
		rows++
	}
	if rows != 3 {
		t.Errorf("%d enforcements are compared:\n%s", rows, table)
	}
}

var (
	// devLine starts three regions in one process: the page says so in an indented line.
	devLine = regexp.MustCompile(`(?m)^    (?:make run|bin/aliquot dev( .*)?)$`)
	upLine  = regexp.MustCompile(`(?m)^    make up$`)
	// pageFile is a file that the page has its reader write.
	pageFile = regexp.MustCompile("(?s)`([\\w.-]+)`:\n\n```\\w*\n(.*?)```")
)

// newTerminals makes the folder with the page's files and starts what the page starts first, if anything.
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
		u.offset = portOffset()
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

// installation has every file of deploy/, and so the lines that each of them says to install it by. tools/deploycheck
// starts the daemons by these files.
func installation(t *testing.T) string {
	t.Helper()
	var deploy strings.Builder
	err := filepath.WalkDir("../../deploy", func(path string, entry fs.DirEntry, err error) error {
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
	return deploy.String()
}

// unitPath is a file that a unit needs: its program, or the configuration that it loads. %i is the name of a region.
var unitPath = regexp.MustCompile(`(?m)^(?:ExecStart=|LoadCredential=[^:]*:)(/\S+)`)

// TestTheInstallationRuns does what run-it-for-real.md says for systemd, below a folder of its own, and wants all files
// there that the units name. tools/deploycheck starts the daemons by ExecStart, and has systemd judge the units. The
// lines with systemctl alone are not run: a test has no systemd to talk to.
func TestTheInstallationRuns(t *testing.T) {
	page, err := os.ReadFile("../../docs/how-to/run-it-for-real.md")
	if err != nil {
		t.Fatal(err)
	}
	root, source := t.TempDir(), t.TempDir()
	for name, to := range map[string]string{"bin": bin, "deploy": "../../deploy"} {
		to, err := filepath.Abs(to)
		if err == nil {
			err = os.Symlink(to, filepath.Join(source, name))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := os.MkdirAll(filepath.Join(root, "etc/systemd/system"), 0o700); err != nil { // every machine with systemd has it
		t.Fatal(err)
	}
	installed := 0
	for line := range strings.Lines(string(page)) {
		command, found := strings.CutPrefix(line, "    install ")
		if !found {
			continue
		}
		installed++
		command = regexp.MustCompile(` /(etc|usr)/`).ReplaceAllString(" "+command, " "+root+"/$1/")
		cmd := exec.Command("sh", "-c", "install"+command)
		cmd.Dir = source
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%s%v\n%s", line, err, out)
		}
	}
	if installed != 7 {
		t.Fatalf("%d lines install something; is the page written otherwise now?", installed)
	}
	for _, unit := range []string{"aliquot-coordinator.service", "aliquot-regional@.service"} {
		text, err := os.ReadFile(filepath.Join(root, "etc/systemd/system", unit))
		if err != nil {
			t.Fatal(err)
		}
		named := unitPath.FindAllStringSubmatch(string(text), -1)
		if len(named) != 2 {
			t.Errorf("%s names %d files, want its program and its configuration", unit, len(named))
		}
		for _, m := range named {
			if _, err := os.Stat(filepath.Join(root, strings.ReplaceAll(m[1], "%i", "us-east"))); err != nil {
				t.Errorf("%s: %v", unit, err)
			}
		}
	}
	if _, err := os.Stat(filepath.Join(root, "etc/aliquot/rules.yaml")); err != nil { // coordinator.yaml names it
		t.Error(err)
	}
}
