package check

import (
	"fmt"
	"strings"

	"aliquot/budget"
)

// Replay follows one path, as a Violation gives it, and describes what happens, state by state. It
// returns an error if the path is not one of this scenario.
func (sc Scenario) Replay(path string) (*Violation, error) {
	sc.prepare()
	var events []event
	for _, text := range strings.Split(path, ",") {
		var e event
		if _, err := fmt.Sscanf(text, "%d.%d.%d", &e.kind, &e.a, &e.b); err != nil || e.kind >= kinds {
			return nil, fmt.Errorf("%q is no event: kind.a.b", text)
		}
		events = append(events, e)
	}
	return sc.explain(events), nil
}

// explain follows a path again and describes it.
func (sc *Scenario) explain(path []event) *Violation {
	v := &Violation{Scenario: sc.Name, What: "nothing is broken"}
	var codes []string
	w, failed := sc.root()
	if failed != "" {
		v.What = failed
		return v
	}
	v.Path = append(v.Path, "at the root"+w.summary())
	w.told = func(text string) { v.Path = append(v.Path, text+w.summary()) }
	for _, e := range path {
		codes = append(codes, e.String())
		v.Replay = strings.Join(codes, ",")
		if broken := w.Try(e); broken != "" {
			v.What = broken
			return v
		}
	}
	v.Path = append(v.Path, "from here on nothing fails any more")
	end := w.Fork()
	end.told = func(text string) { v.Path = append(v.Path, text+end.summary()) }
	if broken := end.Recovers(); broken != "" {
		v.What = broken
	}
	return v
}

// summary describes what every region holds, where a quantum has passed or ends.
func (w *world) summary() string {
	text := fmt.Sprintf("\n      at %v: ideal %d, liable %v", duration(w.now-w.began), w.ideal, w.ledger.Shares(key))
	for i := range w.sc.Regions {
		s := w.sites[i]
		h := s.holdsAt(w.sc, w.now)
		text += fmt.Sprintf("\n      %s: enforces %d at %d/s, has %d;", regionName(i), h.bucket.Cap, h.bucket.Rate.Micro, h.tokens)
		for _, n := range s.nodes {
			right := n.right(w.sc, w.now)
			text += fmt.Sprintf(" daemon %d %v", n.name, right.Phase)
			if right.Hot {
				text += fmt.Sprintf(" %d.%d %v", right.Gen.Epoch, right.Gen.Counter, right.Share)
			}
		}
	}
	return text
}

// words describes an answer.
func (m *downMessage) words() string {
	switch e := m.ev.(type) {
	case budget.HelloAnswered:
		return fmt.Sprintf("%s's Welcome %d%s", regionName(m.to.region), e.OK.Nonce, actions(e.OK.Actions))
	case budget.DirectiveReceived:
		renews := ""
		if e.Directive.Renew {
			renews = ", which renews"
		}
		return fmt.Sprintf("%s's directive %d%s%s", regionName(m.to.region), e.Directive.Seq, renews, actions(e.Directive.Actions))
	default:
		return fmt.Sprintf("%s's refusal", regionName(m.to.region))
	}
}

func actions(all []budget.Action) string {
	text := ""
	for _, a := range all {
		text += fmt.Sprintf(" (%d.%d: %v, granted %d, cold %v)", a.Gen.Epoch, a.Gen.Counter, a.Share, a.Granted, a.Cold)
	}
	return text
}
