package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// usersOf are the packages whose tests may see a change in a folder, after the tests of the changed
// package: the first that fails ends the trial. Tests that take long come late.
var usersOf = map[string][]string{
	"budget":               {"coordinator/internal/leader", "internal/sim", "internal/sim/check", "coordinator", "regional"},
	"limit":                {"internal/entitlement", "internal/recall", "internal/prefetch", "budget", "lua", "regional/store", "internal/sim", "internal/sim/check", "regional"},
	"internal/recall":      {"internal/sim", "internal/sim/check", "regional"},
	"internal/entitlement": {"internal/sim", "internal/sim/check", "regional"},
	"internal/prefetch":    {"internal/sim", "internal/sim/check", "regional"},
	"lua":                  {"regional/store", "regional"},
	"regional":             {"regional"},
	"coordinator":          {"coordinator"},
	"cluster":              {"cluster", "coordinator"},
}

// quick is how long a test takes that runs before the others of its package.
const quick = 300 * time.Millisecond

// verdict is what became of one change.
type verdict struct {
	site
	// Outcome is "caught", "survived", "once" or "does not compile". Once is a change of which a test
	// failed, and did not fail again alone: a busy machine fails tests, too.
	Outcome string  `json:"outcome"`
	Test    string  `json:"test,omitempty"` // the first that failed, after its package
	Seconds float64 `json:"seconds"`
}

// bench compiles and runs tests. It remembers how long each takes, by package and name.
type bench struct {
	root, cache string
	slow        time.Duration
	skip        []string
	times       map[string]map[string]float64 // seconds
}

func newBench(root string, o options) (*bench, error) {
	b := &bench{root: root, cache: o.cache, slow: o.slow, skip: strings.Split(o.skip, ","), times: map[string]map[string]float64{}}
	if err := os.MkdirAll(b.cache, 0o700); err != nil {
		return nil, err
	}
	text, err := os.ReadFile(filepath.Join(b.cache, "times.json"))
	if errors.Is(err, os.ErrNotExist) {
		return b, nil
	} else if err != nil {
		return nil, err
	}
	return b, json.Unmarshal(text, &b.times)
}

// try makes a change and runs the tests.
func (b *bench) try(ctx context.Context, s site) (v verdict, err error) {
	v.site = s
	dir, err := os.MkdirTemp("", "mutant-")
	if err != nil {
		return v, err
	}
	defer os.RemoveAll(dir)
	overlay, err := b.change(s, dir)
	if err != nil {
		return v, err
	}
	began := time.Now()
	defer func() { v.Seconds = time.Since(began).Seconds() }()
	v.Outcome = "does not compile"
	for _, pkg := range b.packagesFor(s.File) {
		binary := filepath.Join(dir, "tests")
		if err := b.build(ctx, pkg, binary, "-overlay", overlay); err != nil {
			if v.Outcome == "survived" {
				return v, err
			}
			return v, ctx.Err()
		}
		v.Outcome = "survived"
		for _, names := range b.groups(pkg, s.File) {
			test, err := b.tests(ctx, pkg, binary, names)
			if err != nil {
				return v, err
			}
			if test == "" {
				continue
			}
			if v.Test = pkg + " " + test; v.Outcome == "survived" {
				v.Outcome, err = b.again(ctx, pkg, binary, test)
			}
			if v.Outcome != "survived" || err != nil {
				return v, err
			}
		}
	}
	v.Test = ""
	return v, nil
}

// change writes the changed copy and an overlay that puts it in the original's place.
func (b *bench) change(s site, dir string) (overlay string, err error) {
	original := filepath.Join(b.root, filepath.FromSlash(s.File))
	text, err := os.ReadFile(original)
	if err != nil {
		return "", err
	}
	copied := filepath.Join(dir, filepath.Base(s.File))
	changed := string(text[:s.from]) + s.After + string(text[s.to:])
	if err := os.WriteFile(copied, []byte(changed), 0o600); err != nil {
		return "", err
	}
	list, err := json.Marshal(map[string]any{"Replace": map[string]string{original: copied}})
	if err != nil {
		return "", err
	}
	overlay = filepath.Join(dir, "overlay.json")
	return overlay, os.WriteFile(overlay, list, 0o600)
}

// build compiles the tests of a package.
func (b *bench) build(ctx context.Context, pkg, binary string, flags ...string) error {
	args := append([]string{"test", "-c", "-vet=off", "-o", binary}, flags...)
	cmd := exec.CommandContext(ctx, "go", append(args, "./"+pkg)...)
	cmd.Dir = b.root
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w\n%s", pkg, err, out)
	}
	return nil
}

// again runs a test that has failed alone, with the change and without it.
func (b *bench) again(ctx context.Context, pkg, binary, test string) (outcome string, err error) {
	name := testName.FindString(test)
	if name == "" {
		return "caught", nil // the process ended
	}
	failure, err := b.tests(ctx, pkg, binary, "^"+name+"$")
	if err != nil {
		return "", err
	}
	if failure == "" {
		return "once", nil
	}
	whole := binary + "-whole"
	if err := b.build(ctx, pkg, whole); err != nil {
		return "", err
	}
	failure, err = b.tests(ctx, pkg, whole, "^"+name+"$")
	if err != nil {
		return "", err
	}
	if failure != "" {
		fmt.Fprintf(os.Stderr, "%s %s fails without a change, too\n", pkg, name)
		return "survived", nil
	}
	return "caught", nil
}

var (
	failed   = regexp.MustCompile(`(?m)^\s*--- FAIL: (\S+)`)
	took     = regexp.MustCompile(`(?m)^--- (?:PASS|FAIL): (\w+) \(([\d.]+)s\)`)
	running  = regexp.MustCompile(`running tests:\n\t(\S+)`)
	testName = regexp.MustCompile(`^(Test|Fuzz)[^/\s]*`) // without its subtest
	declared = regexp.MustCompile(`(?m)^func ((?:Test|Fuzz)\w+)\(`)
)

// tests runs the tests of a package whose names match, and returns the first that fails; empty if
// none does.
func (b *bench) tests(ctx context.Context, pkg, binary, names string) (failure string, err error) {
	// Tests that wait for elections and for leases run beside each other.
	args := []string{"-test.v", "-test.failfast", "-test.parallel", "8", "-test.timeout", b.slow.String(), "-test.run", names}
	if b.draws(pkg) {
		args = append(args, "-rapid.nofailfile", "-rapid.shrinktime=0s") // a change's failure is not one to try again
	}
	test := exec.CommandContext(ctx, binary, args...)
	test.Dir = filepath.Join(b.root, filepath.FromSlash(pkg))
	var out bytes.Buffer
	test.Stdout, test.Stderr = &out, &out
	err = test.Run()
	if ctx.Err() != nil {
		return "", ctx.Err()
	}
	b.remember(pkg, out.Bytes())
	if _, exited := errors.AsType[*exec.ExitError](err); err != nil && !exited {
		return "", err
	}
	if err == nil {
		return "", nil
	}
	return reason(out.String()), nil
}

// draws reports whether tests of a package draw their inputs.
func (b *bench) draws(pkg string) bool {
	files, _ := filepath.Glob(filepath.Join(b.root, filepath.FromSlash(pkg), "*_test.go"))
	return slices.ContainsFunc(files, func(path string) bool {
		text, err := os.ReadFile(path)
		return err == nil && bytes.Contains(text, []byte(`"pgregory.net/rapid"`))
	})
}

// remember records how long tests took.
func (b *bench) remember(pkg string, out []byte) {
	if b.times[pkg] == nil {
		b.times[pkg] = map[string]float64{}
	}
	for _, m := range took.FindAllSubmatch(out, -1) {
		if seconds, err := strconv.ParseFloat(string(m[2]), 64); err == nil {
			b.times[pkg][string(m[1])] = seconds
		}
	}
	text, err := json.MarshalIndent(b.times, "", " ")
	if err == nil {
		err = os.WriteFile(filepath.Join(b.cache, "times.json"), text, 0o600)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
}

// groups are the tests of a package in the order in which they run for a change of a file: those
// named after the file, then the quick ones, then all others.
func (b *bench) groups(pkg, file string) []string {
	var first, short, long []string
	entries, _ := filepath.Glob(filepath.Join(b.root, filepath.FromSlash(pkg), "*_test.go"))
	stem, _, _ := strings.Cut(filepath.Base(file), ".")
	for _, path := range entries {
		text, err := os.ReadFile(path)
		if err != nil {
			continue
		}
		for _, m := range declared.FindAllSubmatch(text, -1) {
			name := string(m[1])
			seconds, known := b.times[pkg][name]
			switch {
			case name == "TestMain":
			case strings.HasPrefix(filepath.Base(path), stem) && pkg == filepath.ToSlash(filepath.Dir(file)):
				first = append(first, name)
			case known && seconds <= quick.Seconds():
				short = append(short, name)
			default:
				long = append(long, name)
			}
		}
	}
	var out []string
	for _, names := range [][]string{first, short, long} {
		if len(names) > 0 {
			out = append(out, "^("+strings.Join(names, "|")+")$")
		}
	}
	return out
}

// packagesFor are the package of a file and those that use it.
func (b *bench) packagesFor(file string) []string {
	own := filepath.ToSlash(filepath.Dir(file))
	out := []string{own}
	for dir := own; dir != "."; dir = filepath.ToSlash(filepath.Dir(dir)) {
		for _, pkg := range usersOf[dir] {
			if !slices.Contains(out, pkg) && !slices.Contains(b.skip, pkg) {
				out = append(out, pkg)
			}
		}
	}
	return out
}

// reason is the failed test, or the end of what was printed.
func reason(out string) string {
	if found := failed.FindStringSubmatch(out); found != nil {
		return found[1]
	}
	if found := running.FindStringSubmatch(out); found != nil {
		return found[1]
	}
	lines := strings.Split(strings.TrimSpace(out), "\n")
	if at := slices.IndexFunc(lines, func(l string) bool { return strings.HasPrefix(l, "panic:") || strings.HasPrefix(l, "fatal error:") }); at >= 0 {
		return lines[at]
	}
	return lines[len(lines)-1]
}
