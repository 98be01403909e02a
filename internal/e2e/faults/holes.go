package faults

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"aliquot/internal/bench"
	"aliquot/internal/e2e"
	"aliquot/internal/e2e/clients"
)

// Hole is a way in which the promise of a limit was once broken on real processes. An open hole breaks it again: edits
// take the repair out of a copy of the source, or the scenario does what it takes.
type Hole struct {
	Name, Breaks string
	edits        []edit
	// run returns the gain of its clients over their worst interval.
	run func(ctx context.Context, l *e2e.Cluster, open bool) (gain float64, err error)
}

// edit replaces a text that occurs once in a file. HOLE in the new text stands for whether the hole is open.
type edit struct{ file, old, new string }

// holeVariable names the open hole in the environment of programs that BuildWithHoles has made.
const holeVariable = "ALIQUOT_HOLE"

// Holes returns the holes that can be opened on real processes.
func Holes() []Hole {
	return []Hole{
		{Name: "H1", Breaks: "a stage gives a rule two limits", run: stagedKind, edits: []edit{
			{"rules/stage.go", "\tvar out []string\n\tfor _, before := range base.rules {", "\tvar out []string\n\tif HOLE {\n\t\treturn nil\n\t}\n\tfor _, before := range base.rules {"},
			{"regional/internal/session/apply.go", "Unenforced: !c.Cold}", "Unenforced: !c.Cold && !HOLE}"},
		}},
		{Name: "H2", Breaks: "a daemon without its store admits beside another one that has it", run: emergencyBesideStore, edits: []edit{
			{"regional/internal/emergency/emergency.go", "\te.isBeside = another\n", "\te.isBeside = another && !HOLE\n"},
			{"regional/internal/session/others.go", "Alone: o.isAlone(now) && ", "Alone: HOLE || o.isAlone(now) && "},
		}},
		{Name: "H3", Breaks: "a floor that is lent is taken back beside its borrowers", run: floorTakenBack, edits: []edit{
			{"budget/leader_daemons.go", "\treturn s.Storeless && (", "\treturn s.Storeless && !HOLE && ("},
		}},
		{Name: "H4", Breaks: "a store comes back with records of before", run: recordsComeBack},
		{Name: "H5", Breaks: "a rule that is slowed refills buckets whose records have gone", run: slowedWhileCold, edits: []edit{
			{"regional/internal/policy/former.go", "now > former.until {\n\t\treturn nil\n\t}\n\tc := p.change", "now > former.until || HOLE {\n\t\treturn nil\n\t}\n\tc := p.change"},
			{"regional/internal/policy/former.go", "now > former.until {\n\t\treturn nil\n\t}\n\tif c, ok", "now > former.until || HOLE {\n\t\treturn nil\n\t}\n\tif c, ok"},
		}},
		{Name: "B2", Breaks: "everything passes before the rules are known", run: passedBeforeRules},
	}
}

// BuildWithHoles compiles the programs of the module at root into dir, with the edits of all holes. A program opens the
// hole that holeVariable names in its environment.
func BuildWithHoles(ctx context.Context, root, dir string) error {
	root, err := filepath.Abs(root)
	if err != nil {
		return err
	}
	texts, err := withHoles(root)
	if err != nil {
		return err
	}
	replace := map[string]string{}
	for file, text := range texts {
		copied := filepath.Join(dir, strings.ReplaceAll(file, "/", "_"))
		if err := os.WriteFile(copied, []byte(text), 0o600); err != nil {
			return err
		}
		replace[filepath.Join(root, filepath.FromSlash(file))] = copied
	}
	list, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return err
	}
	overlay := filepath.Join(dir, "overlay.json")
	if err := os.WriteFile(overlay, list, 0o600); err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, "go", "build", "-overlay", overlay, "-o", dir+string(filepath.Separator), "./cmd/...")
	cmd.Dir = root
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("go build: %w\n%s", err, out)
	}
	return nil
}

// withHoles returns the text of each file that edits change, with all edits, by its path below root.
func withHoles(root string) (map[string]string, error) {
	texts := map[string]string{}
	for _, h := range Holes() {
		for _, e := range h.edits {
			text, ok := texts[e.file]
			if !ok {
				raw, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(e.file)))
				if err != nil {
					return nil, err
				}
				text = strings.Replace(string(raw), "\nimport (", "\nimport holes \"os\"\n\nimport (", 1)
			}
			if n := strings.Count(text, e.old); n != 1 {
				return nil, fmt.Errorf("hole %s has to follow the code: %s has %q %d times", h.Name, e.file, e.old, n)
			}
			open := fmt.Sprintf("(holes.Getenv(%q) == %q)", holeVariable, h.Name)
			texts[e.file] = strings.Replace(text, e.old, strings.ReplaceAll(e.new, "HOLE", open), 1)
		}
	}
	return texts, nil
}

// Observation is what a hole shows: the gain of clients over their worst interval, and the violations that the
// coordinators count.
type Observation struct{ Gain, Violations float64 }

// Observe runs the hole's scenario on a cluster of its own, with the programs of BuildWithHoles in bin.
func (h *Hole) Observe(ctx context.Context, bin, dir string, open bool) (seen Observation, err error) {
	name := "none"
	if open {
		name = h.Name
	}
	if err := os.Setenv(holeVariable, name); err != nil {
		return seen, err
	}
	defer os.Unsetenv(holeVariable)
	l, err := e2e.Start(ctx, bin, dir, e2e.Setup{})
	if l != nil {
		defer l.Stop()
	}
	if err != nil {
		return seen, err
	}
	if seen.Gain, err = h.run(ctx, l, open); err != nil {
		return seen, err
	}
	e2e.Pause(ctx, reportedWithin)
	seen.Violations, err = l.Broken(ctx)
	return seen, err
}

const (
	// holeLasts is how long clients ask while a hole shows. Within reportedWithin the regions have reported what they
	// admitted.
	holeLasts      = 8 * time.Second
	reportedWithin = 3 * time.Second
)

// stagedKind stages another placement of the big limit in one region.
func stagedKind(ctx context.Context, l *e2e.Cluster, open bool) (gain float64, err error) {
	at, err := l.SomeLeader(ctx)
	if err != nil {
		return 0, err
	}
	file := filepath.Join(l.Dir, "another-kind.yaml")
	if err := os.WriteFile(file, []byte(e2e.AnotherKind()), 0o600); err != nil {
		return 0, err
	}
	code, output, err := l.Command(ctx, "rules", "apply", file, "--stage-regions", l.Regions[2].Region, "--addr", at.Address)
	if err == nil && open != (code == 0) {
		err = fmt.Errorf("the stage ended with %d: %s", code, output)
	}
	if err != nil {
		return 0, err
	}
	return worstOf(bench.Rotate(ctx, clients.Paced(l, holeLasts)))
}

// emergencyBesideStore cuts one of two daemons of a region from its store.
func emergencyBesideStore(ctx context.Context, l *e2e.Cluster, _ bool) (gain float64, err error) {
	t, _, err := startTwoDaemons(ctx, l)
	if err != nil {
		return 0, err
	}
	defer t.link.Close()
	run := t.load(ctx, 2*holeLasts)
	e2e.Pause(ctx, holeLasts/2)
	t.link.Close()
	return worstOf(run.Wait())
}

// floorTakenBack runs a client in the other regions and at the second daemon of a region whose floor they have
// borrowed. The second daemon reaches no coordinator, and the first loses its store.
func floorTakenBack(ctx context.Context, l *e2e.Cluster, _ bool) (gain float64, err error) {
	t, _, err := startTwoDaemons(ctx, l)
	if err != nil {
		return 0, err
	}
	defer t.link.Close()
	cut, err := t.isolateSecond(ctx)
	if err != nil {
		return 0, err
	}
	run := t.loadElsewhere(ctx, 2*holeLasts+floorBack)
	e2e.Pause(ctx, holeLasts)
	t.link.Close()
	if gain, err = worstOf(run.Wait()); err != nil {
		return 0, err
	}
	return gain, errors.Join(cut.End(), l.AwaitLease(ctx, t.second)) // it reports what it has admitted
}

// recordsComeBack replaces a store's records by those from before a bucket was emptied, as a replica does that takes
// over without the latest writes.
func recordsComeBack(ctx context.Context, l *e2e.Cluster, open bool) (gain float64, err error) {
	if _, err := bench.Rotate(ctx, oneRegion(l, time.Second)); err != nil { // the key becomes hot
		return 0, err
	}
	e2e.Pause(ctx, 5*time.Second) // and its bucket full
	r := l.Regions[0]
	if err := r.Command(copyKeys("aq:*:b", "'saved'..k")); err != nil {
		return 0, err
	}
	run := clients.Begin(ctx, oneRegion(l, holeLasts/2))
	e2e.Pause(ctx, holeLasts/4)
	if open {
		if err := r.Command(copyKeys("savedaq:*", "string.sub(k,6)")); err != nil {
			return 0, err
		}
	}
	return worstOf(run.Wait())
}

// copyKeys returns a Redis command that copies all keys of a pattern. to is the new name of key k, in Lua.
func copyKeys(pattern, to string) string {
	return fmt.Sprintf(`EVAL "for _,k in ipairs(redis.call('KEYS','%s')) do redis.call('COPY',k,%s,'REPLACE') end return redis.status_reply('OK')" 0`, pattern, to)
}

// oneRegion returns a client that asks the first region alone.
func oneRegion(l *e2e.Cluster, d time.Duration) bench.Config {
	c := clients.BigLoad(l, d)
	c.Run, c.Regions, c.Pattern = "one", c.Regions[:1], bench.Stay
	return c
}

// passedBeforeRules asks regional daemons that know no rules: first while no coordinator runs, then after they started.
func passedBeforeRules(ctx context.Context, l *e2e.Cluster, open bool) (gain float64, err error) {
	if err := l.ForgetEverything(); err != nil {
		return 0, err
	}
	run := clients.Begin(ctx, clients.BigLoad(l, beforeCoordinators+2*holeLasts))
	for _, r := range l.Regions {
		if open {
			r.AddFlags("--without-rules", "allow")
		}
		if err := r.Start(); err != nil {
			return 0, err
		}
	}
	e2e.Pause(ctx, beforeCoordinators)
	if _, err := l.RestartCoordinators(ctx); err != nil {
		return 0, err
	}
	return worstOf(run.Wait())
}

const (
	// The limit that is slowed while it is cold. coldCost is less than half of each region's 40 tokens. At coldRate a
	// bucket earns it again within coldFor, and the record is gone.
	coldCapacity, coldCost = 120, 18
	coldRate               = 4.
	coldFor                = 17 * time.Second
)

// coldRules returns the cluster's rules with a limit that is slowed. The capacity of the small limit shows which rules
// are in force.
func coldRules(smallest int, rate float64) string {
	return strings.Replace(e2e.RulesYAML, "capacity: 60,", fmt.Sprintf("capacity: %d,", smallest), 1) + fmt.Sprintf(`  - id: shared
    match: {attributes: {plan: shared}}
    params: {capacity: %d, refill_rate: %v}
    enforcement: strict
`, coldCapacity, rate)
}

// slowedWhileCold slows a rule whose key is used in every region and cold. It empties the key's buckets when the
// records would be gone.
func slowedWhileCold(ctx context.Context, l *e2e.Cluster, _ bool) (gain float64, err error) {
	if _, err := l.ApplyRules(ctx, coldRules(61, coldRate), 61); err != nil {
		return 0, err
	}
	spent := &clients.Account{}
	err = clients.Everywhere(l, func(_ int, client clients.Spender) error {
		_, err := client.Spend(ctx, spent, "shared", 0, coldCost)
		return err
	})
	if err != nil {
		return 0, err
	}
	if _, err := l.ApplyRules(ctx, coldRules(62, clients.SlowRate), 62); err != nil {
		return 0, err
	}
	e2e.Pause(ctx, coldFor)
	until := time.Now().Add(holeLasts)
	err = clients.Everywhere(l, func(_ int, client clients.Spender) error {
		for time.Now().Before(until) {
			if _, err := client.Spend(ctx, spent, "shared", 0, 1); err != nil {
				return err
			}
			e2e.Pause(ctx, clients.DrainEvery)
		}
		return nil
	})
	return gainOf(spent, coldCapacity), err
}

// worstOf returns the gain of a run over its worst interval.
func worstOf(r *bench.Report, err error) (float64, error) {
	if err != nil {
		return 0, err
	}
	return r.Worst.Gain, nil
}

// gainOf returns what was admitted as a part of a bucket of this capacity, which earns next to nothing.
func gainOf(a *clients.Account, capacity float64) (gain float64) {
	for _, s := range a.Spent {
		gain += float64(s.Tokens) / capacity
	}
	return gain
}
