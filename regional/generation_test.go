package regional

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"aliquot/budget"
	"aliquot/rules"
)

// TestImpossibleGenerations: a share of a generation that no store can keep is refused with
// its session. The daemon goes on, and takes the next leader's shares.
func TestImpossibleGenerations(t *testing.T) {
	l := newLeader(t, ruled(rules.Strict))
	c := testConfig(l.address())
	c.Redis = startRedis(t).url()
	d, _ := startLive(t, c)
	burst(t, d, "k")
	key := keyOf(d, "k")
	l.set(func() { l.counter = 1<<32 - 3 })
	l.lend(key, budget.Unit/8)
	l.lend(key, budget.Unit/4) // the last that a leader can give
	sessions := l.sessions()
	l.give(key, budget.Unit/8, budget.Unit/8)
	eventually(t, "the session has ended, and another one began", func() bool { return l.sessions() > sessions })
	if right := rightOf(d, key); right.Share.Rate != budget.Unit/4 {
		t.Errorf("the share is %+v, want the last possible one's", right)
	}
	l.set(func() { l.epoch, l.counter = l.epoch+1, 0; l.session++ })
	l.lend(key, budget.Unit/8)
}

// TestImpossibleEpochIsNotRead: a state file with an epoch that no leader has is put aside.
func TestImpossibleEpochIsNotRead(t *testing.T) {
	file := filepath.Join(t.TempDir(), "state")
	l := newLeader(t, oneRule)
	c := testConfig(l.address())
	c.StateFile, c.Redis = file, startRedis(t).url()
	keptState(t, c, file)
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	unsigned := regexp.MustCompile(`"sum": "[^"]*"`).ReplaceAll(data, []byte(`"sum": ""`))
	for _, field := range []string{`"epoch": 1`, `"leader_epoch": 1`} {
		spoilt := strings.Replace(string(unsigned), field, field[:len(field)-1]+"2097152", 1)
		if spoilt == string(unsigned) {
			t.Fatalf("no %s in %s", field, unsigned)
		}
		if _, err := parseState([]byte(spoilt)); err == nil || !strings.Contains(err.Error(), "epoch 2097152") {
			t.Errorf("%s: an epoch beyond all that there are: %v", field, err)
		}
	}
}
