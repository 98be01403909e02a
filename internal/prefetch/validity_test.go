package prefetch_test

import (
	"testing"

	"aliquot/budget"
	"aliquot/internal/prefetch"
)

// TestValidity: whatever changes ends chunks, and new contents void them.
func TestValidity(t *testing.T) {
	was := prefetch.Validity{Session: budget.SessionID{Epoch: 2, Number: 3}, Contents: "a:b:1", Config: 4, Rules: 5}
	if ends, drops := was.Ends(was); ends || drops {
		t.Error("the same conditions ends chunks")
	}
	for name, change := range map[string]func(*prefetch.Validity){
		"session":  func(s *prefetch.Validity) { s.Session = budget.SessionID{} },
		"contents": func(s *prefetch.Validity) { s.Contents = "a:c:2" },
		"config":   func(s *prefetch.Validity) { s.Config++ },
		"rules":    func(s *prefetch.Validity) { s.Rules++ },
	} {
		now := was
		change(&now)
		if ends, drops := was.Ends(now); !ends || drops != (name == "contents") {
			t.Errorf("%s: ends %t, drops %t", name, ends, drops)
		}
	}
}
