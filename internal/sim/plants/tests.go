package plants

import (
	"context"
	"errors"
	"os/exec"
	"path"
	"regexp"
	"slices"
	"strings"
	"time"
)

// tested are the packages whose own tests may see what no promise is broken by: a limit
// that is safe and badly used. The tests of other packages that a plant breaks are asked, too.
var tested = []string{"budget", "limit", "internal/entitlement", "internal/prefetch", "internal/recall"}

// drawing are those of them whose tests draw their inputs.
var drawing = []string{"budget", "limit", "internal/entitlement", "internal/prefetch", "internal/recall"}

// testedWith are the packages whose tests are asked about a plant, those that it breaks first. The worlds that stand for
// what ships have no say.
func testedWith(p Plant) []string {
	var out []string
	for _, e := range p.Edits {
		if pkg := path.Dir(e.File); !slices.Contains(out, pkg) && pkg != "internal/sim" && !strings.HasPrefix(pkg, "internal/sim/") {
			out = append(out, pkg)
		}
	}
	for _, pkg := range tested {
		if !slices.Contains(out, pkg) {
			out = append(out, pkg)
		}
	}
	return out
}

var failedTest = regexp.MustCompile(`(?m)^--- FAIL: (\w+)`)

// Test runs tests of the machines' packages with the plant in place: one that is known,
// as "package name", or all. It is caught if one fails.
func (t *Trial) Test(ctx context.Context, known string) (Catch, error) {
	c := Catch{Tried: true}
	packages, run := testedWith(t.plant), "."
	if pkg, name, ok := strings.Cut(known, " "); ok {
		packages, run = []string{pkg}, "^"+name+"$"
	}
	began := time.Now()
	for _, pkg := range packages {
		args := []string{"test", "-count=1", "-overlay", t.overlay, "-run", run, "./" + pkg}
		if slices.Contains(drawing, pkg) { // the others do not know the flag
			args = append(args, "-rapid.nofailfile") // what a plant breaks is no failure to be tried again
		}
		cmd := exec.CommandContext(ctx, "go", args...)
		cmd.Dir = t.bench.Root
		out, err := cmd.Output()
		c.Worked = time.Since(began)
		var exit *exec.ExitError
		if err != nil && !errors.As(err, &exit) {
			return c, err
		}
		if found := failedTest.FindSubmatch(out); found != nil {
			c.Caught, c.Test = true, pkg+" "+string(found[1])
			return c, nil
		}
	}
	return c, nil
}
