package prefetch_test

import (
	"testing"

	"aliquot/budget"
	"aliquot/internal/prefetch"
)

// TestStanding: whatever changes ends chunks, and new contents void them.
func TestStanding(t *testing.T) {
	was := prefetch.Standing{Session: budget.SessionID{Epoch: 2, Number: 3}, Contents: "a:b:1", Config: 4, Rules: 5}
	if ends, drops := was.Ends(was); ends || drops {
		t.Error("the same standing ends chunks")
	}
	for name, change := range map[string]func(*prefetch.Standing){
		"session":  func(s *prefetch.Standing) { s.Session = budget.SessionID{} },
		"contents": func(s *prefetch.Standing) { s.Contents = "a:c:2" },
		"config":   func(s *prefetch.Standing) { s.Config++ },
		"rules":    func(s *prefetch.Standing) { s.Rules++ },
	} {
		now := was
		change(&now)
		if ends, drops := was.Ends(now); !ends || drops != (name == "contents") {
			t.Errorf("%s: ends %t, drops %t", name, ends, drops)
		}
	}
}
