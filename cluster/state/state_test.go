package state

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"aliquot/budget"
	raftlogv1 "aliquot/proto/raftlog/v1"
	"aliquot/rules"
)

func bootstrapCmd(cluster string) *raftlogv1.Command {
	config := budget.NewConfig([]string{"us", "eu", "ap"}, 10e9, 20_000)
	return &raftlogv1.Command{Kind: &raftlogv1.Command_Bootstrap{Bootstrap: &raftlogv1.Bootstrap{
		ClusterId: cluster, HashSecret: bytes.Repeat([]byte{7}, SecretBytes), LeaseMicros: config.Lease.Microseconds(),
		RhoPpm: config.RhoPPM, Regions: EncodeRegions(config.Regions), RulesYaml: testRules, Author: "t", UnixMs: 1,
	}}}
}

func rulesCmd(yaml string) *raftlogv1.Command {
	return &raftlogv1.Command{Kind: &raftlogv1.Command_ApplyRules{ApplyRules: &raftlogv1.ApplyRules{Yaml: yaml, FileName: "f.yaml"}}}
}

func planCmd(epoch uint64, entries ...budget.Entry) *raftlogv1.Command {
	return &raftlogv1.Command{Kind: &raftlogv1.Command_CommitPlan{CommitPlan: EncodePlan(budget.Plan{Epoch: epoch, Changes: entries})}}
}

func mintCmd() *raftlogv1.Command {
	return &raftlogv1.Command{Kind: &raftlogv1.Command_MintEpoch{MintEpoch: &raftlogv1.MintEpoch{NodeId: "c1"}}}
}

func timingCmd(leaseMicros int64, rhoPPM int32) *raftlogv1.Command {
	return &raftlogv1.Command{Kind: &raftlogv1.Command_SetTiming{SetTiming: &raftlogv1.SetTiming{LeaseMicros: leaseMicros, RhoPpm: rhoPPM}}}
}

// drive applies commands as Raft would.
func drive(t interface{ Fatal(...any) }, f *Machine, cmds ...*raftlogv1.Command) (last any) {
	for _, c := range cmds {
		data, err := EncodeCommand(c)
		if err != nil {
			t.Fatal(err)
		}
		last = f.Apply(f.state.AppliedIndex+1, 1, data)
	}
	return last
}

func bytesOf(t interface{ Fatal(...any) }, f *Machine) []byte {
	var b bytes.Buffer
	if err := WriteSnapshot(&b, &f.state); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestSecondBootstrapChangesNothing(t *testing.T) {
	f := NewMachine()
	drive(t, f, bootstrapCmd("one"))
	before := bytesOf(t, f)
	if answer := drive(t, f, bootstrapCmd("two")); answer != nil {
		t.Errorf("answer %v", answer)
	}
	if !bytes.Equal(before, bytesOf(t, f)) {
		t.Error("a second bootstrap changed the state")
	}
}

func TestBootstrapIsChecked(t *testing.T) {
	for name, spoil := range map[string]func(*raftlogv1.Bootstrap){
		"short secret": func(b *raftlogv1.Bootstrap) { b.HashSecret = b.HashSecret[1:] },
		"no regions":   func(b *raftlogv1.Bootstrap) { b.Regions = nil },
		"floors":       func(b *raftlogv1.Bootstrap) { b.Regions[0].Floor.Rate++ },
		"same region":  func(b *raftlogv1.Bootstrap) { b.Regions[1].Name = b.Regions[0].Name },
		"bad rules":    func(b *raftlogv1.Bootstrap) { b.RulesYaml = "rules: 3" },
	} {
		f, c := NewMachine(), bootstrapCmd("one")
		spoil(c.GetBootstrap())
		if _, refused := drive(t, f, c).(error); !refused || f.state.ClusterID != "" {
			t.Errorf("%s: not refused", name)
		}
	}
}

func TestDroppedRuleTakesItsKeysAlong(t *testing.T) {
	f := NewMachine()
	drive(t, f, bootstrapCmd("one"), rulesCmd(twoRules), mintCmd())
	two := third(1)
	two.Key.Rule = f.state.Rules.Numbers["r2"]
	if answer := drive(t, f, planCmd(1, third(1), two)); answer != nil {
		t.Fatal(answer)
	}
	if f.state.Ledger.Len() != 2 {
		t.Fatalf("%d keys", f.state.Ledger.Len())
	}
	drive(t, f, rulesCmd(testRules))
	if f.state.Ledger.Len() != 1 || f.state.Ledger.Shares(key(1)) == nil {
		t.Error("the keys of the deleted rule must go, the others stay")
	}
	drive(t, f, rulesCmd(twoRules))
	if f.state.Rules.Numbers["r2"] == two.Key.Rule {
		t.Error("a rule that came back got its old number")
	}
}

// A plan may be on its way while ApplyRules drops a rule. What it says of that rule
// must not bring the entries back, the rest of it stands, removals too.
func TestPlanForADroppedRule(t *testing.T) {
	f := NewMachine()
	drive(t, f, bootstrapCmd("one"), rulesCmd(twoRules), mintCmd())
	two, never := third(2), third(3)
	two.Key.Rule = f.state.Rules.Numbers["r2"]
	never.Key.Rule = 77
	late := planCmd(1, third(1), two, never, budget.Entry{Key: two.Key})
	drive(t, f, planCmd(1, two), rulesCmd(testRules))
	restored, err := ReadSnapshot(bytes.NewReader(bytesOf(t, f)))
	if err != nil {
		t.Fatal(err)
	}
	g := NewMachine()
	g.state = *restored
	for name, f := range map[string]*Machine{"as it went": f, "from a snapshot": g} {
		if answer := drive(t, f, late); answer != nil {
			t.Errorf("%s: the plan was refused: %v", name, answer)
		}
		if keys := f.state.Ledger.Keys(); len(keys) != 1 || keys[0] != key(1) {
			t.Errorf("%s: keys %v, want that of the rule in force", name, keys)
		}
		if answer := drive(t, f, planCmd(1, two, budget.Entry{Key: key(1)})); answer != nil || f.state.Ledger.Len() != 0 {
			t.Errorf("%s: a removal was ignored: %v", name, answer)
		}
	}
}

func TestRefusalsChangeNothing(t *testing.T) {
	f := NewMachine()
	drive(t, f, bootstrapCmd("one"), mintCmd(), mintCmd())
	before, next := bytesOf(t, f), f.Changed()
	over := third(1)
	over.Shares = []budget.Share{{Rate: budget.Unit}, {Rate: 1}, {}}
	short := planCmd(2, third(1))
	short.GetCommitPlan().Changes[0].Hash = []byte{1}
	for name, c := range map[string]struct {
		cmd  *raftlogv1.Command
		want error
	}{
		"stale plan":   {planCmd(1, third(1)), budget.ErrStalePlan},
		"overcommit":   {planCmd(2, third(2), over), budget.ErrOvercommitted},
		"short hash":   {short, budget.ErrBadPlan},
		"stale expect": {&raftlogv1.Command{Kind: &raftlogv1.Command_ApplyRules{ApplyRules: &raftlogv1.ApplyRules{HasExpected: true, ExpectedVersion: 9}}}, ErrVersionConflict{9, 1}},
	} {
		if err, _ := drive(t, f, c.cmd).(error); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
	}
	err, _ := drive(t, f, rulesCmd("rules: 3")).(error)
	if refused := (*rules.Error)(nil); !errors.As(err, &refused) {
		t.Errorf("bad rules: %v", err)
	}
	if !bytes.Equal(before, bytesOf(t, f)) || f.Changed() != next {
		t.Error("a refused command changed something")
	}
}

func TestUnreadableEntryCrashes(t *testing.T) {
	good, err := EncodeCommand(mintCmd())
	if err != nil {
		t.Fatal(err)
	}
	for name, data := range map[string][]byte{
		"garbage":        []byte("\xff\xff\xff"),
		"empty":          nil,
		"later format":   {0x08, 0x03, 0x32, 0x00},
		"earlier format": {0x08, 0x01, 0x32, 0x00},
		"unknown kind":   {0x08, 0x02, 0xa2, 0x06, 0x00}, // field 100
		"known and more": append(good, 0xa2, 0x06, 0x00),
	} {
		func() {
			defer func() {
				if r := recover(); r == nil || !strings.Contains(fmt.Sprint(r), "log entry 42") {
					t.Errorf("%s: recovered %v, want a panic that names the entry", name, r)
				}
			}()
			NewMachine().Apply(42, 1, data)
		}()
	}
}

// A change of timing is replicated and survives a snapshot half way.
func TestTimingIsReplicated(t *testing.T) {
	f := NewMachine()
	drive(t, f, bootstrapCmd("c"))
	if got := drive(t, f, timingCmd(1, 20_000)); !errors.Is(got.(error), budget.ErrBadTiming) {
		t.Errorf("a lease of a microsecond: %v", got)
	}
	if got := drive(t, f, timingCmd(1<<62, 20_000)); !errors.Is(got.(error), budget.ErrBadTiming) {
		t.Errorf("a lease of a hundred thousand years: %v", got)
	}
	drive(t, f, timingCmd(30e6, 50_000))
	restored, err := ReadSnapshot(bytes.NewReader(bytesOf(t, f)))
	if err != nil {
		t.Fatal(err)
	}
	c := restored.Ledger.Config
	if c.Lease != 10*time.Second || c.LeaseWait != 30*time.Second || c.LeaseNext != 30*time.Second || c.RhoPPM != 50_000 || !c.RhoRising {
		t.Errorf("half way: %+v", c)
	}
	drive(t, f, &raftlogv1.Command{Kind: &raftlogv1.Command_AdvanceFloors{AdvanceFloors: &raftlogv1.AdvanceFloors{
		ConfigVersion: c.Version, Acknowledged: []uint32{0, 1, 2}, LeasesOver: true,
	}}})
	if c := f.state.Ledger.Config; c.Lease != 30*time.Second || c.Retiming() {
		t.Errorf("in the end: %+v", c)
	}
}

// anyCommand draws a command, sensible ones mostly.
func anyCommand(t *rapid.T) *raftlogv1.Command {
	switch rapid.IntRange(0, 9).Draw(t, "kind") {
	case 0:
		return bootstrapCmd(rapid.StringMatching(`[a-f]{4}`).Draw(t, "cluster"))
	case 1:
		return rulesCmd(rapid.SampledFrom([]string{testRules, twoRules, "rules: 3"}).Draw(t, "rules"))
	case 2:
		return mintCmd()
	case 3:
		change := rapid.SampledFrom([]RegionChange{AddRegion, UpdateRegion, DrainRegion, FenceRegion, 0}).Draw(t, "change")
		return &raftlogv1.Command{Kind: &raftlogv1.Command_ChangeRegion{ChangeRegion: &raftlogv1.ChangeRegion{
			Name: rapid.SampledFrom([]string{"us", "eu", "sa", "../x"}).Draw(t, "region"), Change: change.Encode(), Weight: rapid.Int32Range(-1, 5).Draw(t, "weight"),
		}}}
	case 4, 5:
		return &raftlogv1.Command{Kind: &raftlogv1.Command_AdvanceFloors{AdvanceFloors: &raftlogv1.AdvanceFloors{
			ConfigVersion: uint64(rapid.IntRange(1, 6).Draw(t, "version")), Settled: rapid.Bool().Draw(t, "settled"),
			Acknowledged: rapid.SliceOfN(rapid.Uint32Range(0, 4), 0, 4).Draw(t, "acknowledged"), LeasesOver: rapid.Bool().Draw(t, "over"),
		}}}
	case 6:
		return timingCmd(rapid.Int64Range(-1, 20e6).Draw(t, "lease"), rapid.Int32Range(0, 300_000).Draw(t, "rho"))
	default:
		n := rapid.IntRange(1, 5).Draw(t, "keys")
		var entries []budget.Entry
		for range n {
			e := budget.Entry{Key: budget.KeyID{Rule: uint32(rapid.IntRange(1, 3).Draw(t, "rule")), Hash: [16]byte{byte(rapid.IntRange(0, 20).Draw(t, "hash"))}}}
			if rapid.Bool().Draw(t, "set") {
				for range rapid.IntRange(3, 4).Draw(t, "shares") {
					e.Shares = append(e.Shares, budget.Share{Rate: rapid.Int32Range(0, budget.Unit/2).Draw(t, "rate"), Burst: rapid.Int32Range(0, budget.Unit/3).Draw(t, "burst")})
				}
			}
			entries = append(entries, e)
		}
		return planCmd(uint64(rapid.IntRange(0, 3).Draw(t, "epoch")), entries...)
	}
}

// The same commands give the same bytes, also when a snapshot and a restore come
// between, and no sequence of commands lets shares sum above the whole.
func TestDeterminismAndSnapshotRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		cmds := rapid.SliceOfN(rapid.Custom(anyCommand), 0, 30).Draw(t, "commands")
		cut := rapid.IntRange(0, len(cmds)).Draw(t, "cut")
		a, b := NewMachine(), NewMachine()
		drive(t, a, cmds...)
		drive(t, b, cmds[:cut]...)
		restored, err := ReadSnapshot(bytes.NewReader(bytesOf(t, b)))
		if err != nil {
			t.Fatal(err)
		}
		c := NewMachine()
		c.state = *restored
		if !bytes.Equal(bytesOf(t, b), bytesOf(t, c)) {
			t.Fatal("a restored state writes other bytes")
		}
		drive(t, c, cmds[cut:]...)
		if !bytes.Equal(bytesOf(t, a), bytesOf(t, c)) {
			t.Fatal("a node restored from a snapshot diverged")
		}
		for _, k := range a.state.Ledger.Keys() {
			var sum budget.Share
			for _, s := range a.state.Ledger.Shares(k) {
				sum = sum.Add(s)
			}
			if !sum.Within(budget.Share{Rate: budget.Unit, Burst: budget.Unit}) {
				t.Fatalf("%v: %v", k, sum)
			}
		}
	})
}

func TestDamagedSnapshotIsRefused(t *testing.T) {
	f := NewMachine()
	drive(t, f, bootstrapCmd("one"), mintCmd(), planCmd(1, third(1), third(2)))
	good := bytesOf(t, f)
	for n := range len(good) {
		if _, err := ReadSnapshot(bytes.NewReader(good[:n])); !errors.Is(err, ErrBadSnapshot) {
			t.Fatalf("cut to %d of %d bytes: %v", n, len(good), err)
		}
		for bit := range 8 {
			bad := bytes.Clone(good)
			bad[n] ^= 1 << bit
			if _, err := ReadSnapshot(bytes.NewReader(bad)); !errors.Is(err, ErrBadSnapshot) {
				t.Fatalf("bit %d of byte %d flipped: %v", bit, n, err)
			}
		}
	}
	if _, err := ReadSnapshot(bytes.NewReader(append(good, 0))); !errors.Is(err, ErrBadSnapshot) {
		t.Errorf("a tail was accepted: %v", err)
	}
}

func TestSnapshotIsACopy(t *testing.T) {
	f := NewMachine()
	drive(t, f, bootstrapCmd("one"), mintCmd(), planCmd(1, third(1)))
	want := bytesOf(t, f)
	copied := f.Copy()
	drive(t, f, rulesCmd(twoRules), planCmd(1, third(2)))
	var got bytes.Buffer
	if err := WriteSnapshot(&got, copied); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(want, got.Bytes()) {
		t.Error("later commands reached into the snapshot")
	}
}

func TestSplitPlan(t *testing.T) {
	plan := budget.Plan{Epoch: 3, InitialRedisEpochs: []budget.InitialRedisEpoch{{Region: 1, RedisEpoch: "e"}}}
	for i := range 10_000 {
		plan.Changes = append(plan.Changes, third(i))
	}
	seen := 0
	for i, part := range SplitPlan(plan) {
		data, err := EncodeCommand(&raftlogv1.Command{Kind: &raftlogv1.Command_CommitPlan{CommitPlan: EncodePlan(part)}})
		if err != nil || len(data) > planEntryBytes || part.Epoch != 3 || (len(part.InitialRedisEpochs) == 1) != (i == 0) {
			t.Errorf("part %d: %d bytes, epoch %d, %v", i, len(data), part.Epoch, err)
		}
		seen += len(part.Changes)
	}
	if seen != 10_000 {
		t.Errorf("%d changes of 10,000", seen)
	}
	if parts := SplitPlan(budget.Plan{Epoch: 1}); len(parts) != 1 {
		t.Errorf("an empty plan is one entry, got %d", len(parts))
	}
}

func TestSecretNeverShows(t *testing.T) {
	secret, _ := newSecret(bytes.Repeat([]byte("K"), SecretBytes))
	var b strings.Builder
	slog.New(slog.NewTextHandler(&b, nil)).Info("x", "secret", secret, "in", struct{ S Secret }{secret})
	slog.New(slog.NewJSONHandler(&b, nil)).Info("x", "secret", secret, "in", State{HashSecret: secret})
	fmt.Fprintf(&b, "%v %+v %#v %s %q %v %+v", secret, secret, secret, secret, secret, State{HashSecret: secret}, &State{HashSecret: secret})
	if out := b.String(); strings.Contains(out, "KK") || strings.Contains(out, "75 75") || strings.Contains(out, "0x4b") {
		t.Errorf("it shows: %s", out)
	}
}
