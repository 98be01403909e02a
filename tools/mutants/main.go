package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"time"
)

// testsOf are the packages whose tests run for a change in a folder, in this order: the first that
// fails ends the trial.
var testsOf = map[string][]string{
	"lua":                          {"./lua", "./regional/store"},
	"regional/store":               {"./regional/store", "./regional"},
	"regional":                     {"./regional"},
	"coordinator":                  {"./coordinator"},
	"coordinator/internal/audit":   {"./coordinator/internal/audit", "./coordinator"},
	"coordinator/internal/leader":  {"./coordinator/internal/leader", "./coordinator"},
	"coordinator/internal/service": {"./coordinator/internal/service", "./coordinator"},
	"cluster":                      {"./cluster", "./coordinator"},
	"cluster/gossip":               {"./cluster/gossip", "./cluster"},
	"cluster/raftnet":              {"./cluster/raftnet", "./cluster"},
	"cluster/raftlog":              {"./cluster/raftlog", "./cluster"},
	"cluster/state":                {"./cluster/state", "./cluster", "./coordinator"},
}

// verdict is what became of one change.
type verdict struct {
	site
	// Outcome is "caught", "survived", "once" or "does not compile". Once is a change of which a test
	// failed, and did not fail again alone: a busy machine fails tests, too.
	Outcome string  `json:"outcome"`
	Test    string  `json:"test,omitempty"` // the first that failed, after its package
	Seconds float64 `json:"seconds"`
}

func main() {
	root := flag.String("root", "..", "root of the module")
	n := flag.Int("n", 60, "how many changes that compile to try")
	seed := flag.Uint64("seed", 1, "what they are drawn by")
	folders := flag.String("folders", "regional,coordinator,cluster,cluster/gossip,cluster/raftlog,cluster/raftnet,cluster/state,lua", "where the changes are made, comma separated")
	only := flag.String("only", "", "try the changes whose description contains this, and no others")
	limit := flag.Duration("timeout", 5*time.Minute, "for one package's tests; a test that hangs counts as caught")
	list := flag.Bool("list", false, "print the changes and try none")
	output := flag.String("output", "table", "table or json")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, *root, *folders, *only, *n, *seed, *limit, *list, *output == "json"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context, root, folders, only string, n int, seed uint64, limit time.Duration, list, asJSON bool) error {
	root, err := filepath.Abs(root)
	if err != nil {
		return err
	}
	all, err := sitesUnder(root, strings.Split(folders, ","))
	if err != nil {
		return err
	}
	var out []verdict
	tried := 0
	for _, s := range shuffled(all, seed) {
		if tried == n || ctx.Err() != nil {
			break
		}
		if only != "" && !strings.Contains(s.String(), only) {
			continue
		}
		if list {
			fmt.Println(s)
			tried++
			continue
		}
		v := verdict{site: s}
		if err := v.try(ctx, root, limit); err != nil {
			return err
		}
		if v.Outcome == "does not compile" {
			continue
		}
		tried++
		out = append(out, v)
		fmt.Fprintf(os.Stderr, "%d of %d: %s %s (%.0f s) %s\n", tried, n, v.Outcome, s, v.Seconds, v.Test)
	}
	if asJSON {
		return json.NewEncoder(os.Stdout).Encode(out)
	}
	table(out)
	return ctx.Err()
}

var (
	failed   = regexp.MustCompile(`(?m)^\s*--- FAIL: (\S+)`)
	testName = regexp.MustCompile(`^(Test|Fuzz)[^/\s]*`) // without its subtest
)

// try makes the change and runs the tests.
func (v *verdict) try(ctx context.Context, root string, limit time.Duration) error {
	dir, err := os.MkdirTemp("", "mutant-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	original := filepath.Join(root, filepath.FromSlash(v.File))
	text, err := os.ReadFile(original)
	if err != nil {
		return err
	}
	copied := filepath.Join(dir, filepath.Base(v.File))
	changed := string(text[:v.from]) + v.After + string(text[v.to:])
	if err := os.WriteFile(copied, []byte(changed), 0o600); err != nil {
		return err
	}
	overlay, err := json.Marshal(map[string]any{"Replace": map[string]string{original: copied}})
	if err != nil {
		return err
	}
	list := filepath.Join(dir, "overlay.json")
	if err := os.WriteFile(list, overlay, 0o600); err != nil {
		return err
	}
	began := time.Now()
	defer func() { v.Seconds = time.Since(began).Seconds() }()
	build := exec.CommandContext(ctx, "go", "build", "-overlay", list, "./"+filepath.ToSlash(filepath.Dir(v.File)))
	build.Dir = root
	if build.Run() != nil {
		v.Outcome = "does not compile"
		return ctx.Err()
	}
	v.Outcome = "survived"
	for _, pkg := range packagesFor(v.File) {
		failure, err := testOf(ctx, root, list, pkg, ".", limit)
		if err != nil {
			return err
		}
		if failure == "" {
			continue
		}
		v.Outcome, v.Test = "caught", pkg+" "+failure
		if found := testName.FindString(failure); found != "" {
			again, err := testOf(ctx, root, list, pkg, "^"+found+"$", limit)
			if err != nil {
				return err
			}
			if again == "" {
				v.Outcome = "once"
			}
		}
		break
	}
	return nil
}

// testOf runs the tests of a package whose names match, on a changed copy, and returns the first
// that fails; empty if none does.
func testOf(ctx context.Context, root, overlay, pkg, names string, limit time.Duration) (failure string, err error) {
	test := exec.CommandContext(ctx, "go", "test", "-count=1", "-failfast", "-timeout", limit.String(), "-run", names, "-overlay", overlay, pkg)
	test.Dir = root
	out, err := test.CombinedOutput()
	if ctx.Err() != nil {
		return "", ctx.Err()
	}
	if _, exited := errors.AsType[*exec.ExitError](err); err != nil && !exited {
		return "", err
	}
	if err == nil {
		return "", nil
	}
	return reason(string(out)), nil
}

// packagesFor are those of the innermost folder of a file that the table knows.
func packagesFor(file string) []string {
	for dir := filepath.ToSlash(filepath.Dir(file)); dir != "."; dir = filepath.ToSlash(filepath.Dir(dir)) {
		if packages, known := testsOf[dir]; known {
			return packages
		}
	}
	return []string{"./..."}
}

// reason is the failed test, or the end of what was printed.
func reason(out string) string {
	if found := failed.FindStringSubmatch(out); found != nil {
		return found[1]
	}
	if strings.Contains(out, "test timed out") {
		return "timed out"
	}
	lines := strings.Split(strings.TrimSpace(out), "\n")
	return lines[0]
}

func table(out []verdict) {
	caught := 0
	fmt.Println("| change | outcome | by |\n|---|---|---|")
	for _, v := range out {
		if v.Outcome == "caught" {
			caught++
		}
		fmt.Printf("| `%s` | %s | %s |\n", strings.ReplaceAll(v.site.String(), "|", "\\|"), v.Outcome, v.Test)
	}
	fmt.Printf("\n%d of %d caught\n", caught, len(out))
}
