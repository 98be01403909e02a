package regional

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"aliquot/regional/internal/modes"
)

const slowRule = "defaults: {enforcement: strict}\nrules:\n  - id: r0\n    params: {capacity: %d, refill_rate: 0.001}\n"

// TestARaisedLimitKeepsItsTokens: the tokens there are stay, and none comes but by the
// new rate. Of ten, the region's floor is five.
func TestARaisedLimitKeepsItsTokens(t *testing.T) {
	inNetwork(t, func(t *testing.T) {
		l := newLeader(t, fmt.Sprintf(slowRule, 10))
		d, _ := startLive(t, testConfig(l.address()))
		if n := l.sessions(); n != 1 {
			t.Errorf("%d sessions; nothing should have ended the first", n)
		}
		passed := 0
		for range 2 {
			if check(t, d, "k").Allowed {
				passed++
			}
		}
		l.setRules(2, fmt.Sprintf(slowRule, 1000))
		eventually(t, "version 2 in force", func() bool { return d.policies.Load().Text.Version == 2 })
		exactly(t, "before and after the limit was raised", passed+burst(t, d, "k"), 5, d)
	})
}

// TestDecisionsAreCountedByVersion: the reports tell how many requests were allowed and
// denied under the rules that the region goes by.
func TestDecisionsAreCountedByVersion(t *testing.T) {
	inNetwork(t, func(t *testing.T) {
		l := newLeader(t, fmt.Sprintf(slowRule, 10))
		d, _ := startLive(t, testConfig(l.address()))
		reported := func(version, allowed, denied uint64) func() bool {
			return func() bool {
				l.mu.Lock()
				defer l.mu.Unlock()
				last := l.reports[len(l.reports)-1]
				return last.GetDecidedRulesVersion() == version && last.GetAllowed() == allowed && last.GetDenied() == denied
			}
		}
		eventually(t, "nothing is reported at first", reported(1, 0, 0))
		var allowed, denied uint64
		for range 8 {
			if check(t, d, "k").Allowed {
				allowed++
			} else {
				denied++
			}
		}
		if denied == 0 {
			t.Fatal("nothing was denied")
		}
		eventually(t, "all is reported", reported(1, allowed, denied))
		l.setRules(2, fmt.Sprintf(slowRule, 10)+"blacklist: [b]\n")
		eventually(t, "counting begins again", reported(2, 0, 0))
		if check(t, d, "b").Allowed || !post(t, d, `{"attributes":{"api_key":"other"}}`).Allowed {
			t.Error("the block list does not hold, or blocks others")
		}
		eventually(t, "a blocked key counts too", reported(2, 1, 1))
		l.setRules(3, "rules: nonsense")
		eventually(t, "the refused version is known", func() bool { return d.policies.VersionSeen() == 3 })
		check(t, d, "b")
		eventually(t, "the good version decided", reported(2, 1, 2))
	})
}

// TestBadRulesInTheStateFile: a file whose rules this version cannot read costs the
// rules, not the daemon; the coordinators send theirs. Nothing passes meanwhile, and the file
// is kept.
func TestBadRulesInTheStateFile(t *testing.T) {
	inNetwork(t, func(t *testing.T) {
		l := newLeader(t, fmt.Sprintf(slowRule, 10))
		c := testConfig(l.address())
		c.StateFile = filepath.Join(t.TempDir(), "state.json")
		_, stop := startLive(t, c)
		stop()
		text, err := os.ReadFile(c.StateFile)
		if err != nil {
			t.Fatal(err)
		}
		spoilt := summed(t, bytes.Replace(text, []byte("capacity: 10"), []byte("capcity: 10"), 1))
		if err := os.WriteFile(c.StateFile, spoilt, 0o600); err != nil || bytes.Equal(text, spoilt) {
			t.Fatalf("%v\n%s", err, spoilt)
		}
		l.set(func() { l.down = true })
		d, _ := start(t, c)
		if a := check(t, d, "k"); a.Allowed || a.Mode != modes.NoRulesYet {
			t.Errorf("%+v", a)
		}
		if r := reasonOf(t, d); !strings.Contains(r, "cannot read version 1") {
			t.Errorf("not ready because: %s", r)
		}
		if kept, err := os.ReadFile(c.StateFile + ".bad"); err != nil || !bytes.Equal(kept, spoilt) {
			t.Errorf("%v: the file was not kept: %s", err, kept)
		}
		if !strings.Contains(scrape(t, d), "aliquot_rules_reload_failures_total 1") {
			t.Error("the refusal is not counted")
		}
		l.set(func() { l.down = false })
		eventually(t, "the coordinators' rules", func() bool { return check(t, d, "k").RuleID == "r0" })
	})
}
