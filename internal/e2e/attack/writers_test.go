package attack

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
)

// hurriedWriters change the rules through all coordinators at once, with deadlines that end before, while and after that
// is done. A change that was answered as made is in the history, and one that "nothing was changed" by is not.
func (p *peers) hurriedWriters(t *testing.T) string {
	type write struct{ author, answer string }
	var mu sync.Mutex
	var writes []write
	var all sync.WaitGroup
	text := peerRules
	for i := range 1000 {
		text += fmt.Sprintf("  - {id: x%d, match: {attributes: {plan: none}}, params: {capacity: 5, refill_rate: 1}}\n", i)
	}
	for i, v := range p.nodes {
		for _, ms := range []int{1, 20, 50, 100, 200, 400, 800, 30_000} {
			all.Go(func() {
				author := fmt.Sprintf("hurried-%d-%d", i, ms)
				body, _ := json.Marshal(map[string]string{"yaml": text + "# " + author + "\n", "author": author})
				answer := call(v.at, "/aliquot.v1.RuleService/ApplyRules", "application/json", body, fmt.Sprintf("Connect-Timeout-Ms: %d", ms))
				mu.Lock()
				defer mu.Unlock()
				writes = append(writes, write{author, answer})
			})
		}
	}
	all.Wait()
	p.commits(t) // so each coordinator has what was committed before
	var history struct{ Versions []struct{ Author string } }
	if code, text := p.nodes[0].asked(t, "RuleService/ListRuleVersions", `{"limit":1000}`, &history); code != 200 {
		t.Fatalf("the history: %d %s", code, text)
	}
	made := map[string]bool{}
	for _, v := range history.Versions {
		made[v.Author] = true
	}
	answers := map[string]int{}
	for _, w := range writes {
		switch {
		case strings.HasPrefix(w.answer, "200"):
			answers["made"]++
			if !made[w.author] {
				t.Errorf("%s was told that the change was made, and the history does not have it", w.author)
			}
		case strings.Contains(w.answer, "nothing was changed"):
			answers["nothing was changed"]++
			if made[w.author] {
				t.Errorf("%s was told that nothing was changed, and the history has it", w.author)
			}
		case strings.HasPrefix(w.answer, "504 "), strings.HasPrefix(w.answer, "503 "):
			answers[w.answer[:3]+", unknown"]++
		default:
			t.Errorf("%s: %s", w.author, w.answer)
		}
	}
	var out []string
	for _, k := range slices.Sorted(maps.Keys(answers)) {
		out = append(out, fmt.Sprintf("%s: %d", k, answers[k]))
	}
	return strings.Join(out, "; ")
}
