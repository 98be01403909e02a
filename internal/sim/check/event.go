package check

import (
	"fmt"
	"time"
)

// event is one thing that can happen. a and b are its arguments.
type event struct {
	kind kind
	a, b uint8
}

type kind uint8

const (
	// Free events, which happen when nothing fails.
	passes   kind = iota // a quantum; a: the division that is asked for
	allUp                // every message up arrives, in order, and the leader plans
	allDown              // the commit, and every message down arrives
	oneUp                // message a
	oneDown              // message a
	commits              // the leader's plan is committed, and the leader learns of it
	plans                // the leader
	heals                // the cut of region a
	elects               // a new leader
	arrivesA             // delayed command b of region a
	advances             // the next step of a change of floors or timing
	renews               // the chunk of daemon b in region a
	returns              // likewise
	// Faults.
	losesUp
	losesDown
	holdsUp
	holdsDown
	repeatsUp
	repeatsDown
	holdsCommit
	leaderDies   // a new leader follows at once; a: 1 if its plan is applied
	leaderGone   // there is no leader; a as in leaderDies
	leaderLinger // the old leader continues; a as in leaderDies
	asksOld      // region a sends its next call to the deposed leader
	restarts     // daemon b of region a, which keeps its state file
	forgets      // daemon b of region a, without its state file
	doubles      // region a gets a second daemon; b: 1 if the first is cut off
	flushes      // the store of region a
	rollsBack    // the store of region a
	cuts         // region a; b: bit 0 up, bit 1 down
	applySticks  // the next change of shares in region a is delayed
	applyMute    // the next change of shares in region a is made, but its reply is lost
	takeSticks   // a request for all tokens, in region a, daemon b
	reweighs     // an operator gives region a another weight
	drains       // an operator drains region a
	retimes      // an operator sets a shorter lease, or a longer one if a is 1
	lendSticks   // the next call about the chunk of daemon b in region a is delayed
	lendMute     // that call is made, but its reply is lost
	kinds
)

// Sets of faults for Scenario.Faults.
const (
	Lose     = 1<<losesUp | 1<<losesDown
	Hold     = 1<<holdsUp | 1<<holdsDown
	Repeat   = 1<<repeatsUp | 1<<repeatsDown
	SlowLog  = 1 << holdsCommit
	NewLead  = 1 << leaderDies
	NoLeader = 1 << leaderGone
	Linger   = 1<<leaderLinger | 1<<asksOld
	Restart  = 1 << restarts
	Forget   = 1 << forgets
	Double   = 1 << doubles
	Flush    = 1 << flushes
	RollBack = 1 << rollsBack
	Cut      = 1 << cuts
	Reweigh  = 1 << reweighs
	Drain    = 1 << drains
	Retime   = 1 << retimes
	Stick    = 1<<applySticks | 1<<applyMute | 1<<takeSticks
	Owe      = 1<<lendSticks | 1<<lendMute
)

func (e event) fault() bool { return e.kind >= losesUp }

// String returns the event as it appears in the path of a violation and as -replay reads it.
func (e event) String() string { return fmt.Sprintf("%d.%d.%d", e.kind, e.a, e.b) }

// words describes an event of a world.
func (w *world) words(e event) string {
	a, b := int(e.a), int(e.b)
	switch e.kind {
	case passes:
		return fmt.Sprintf("%v pass; %s", w.sc.Quantum, w.sc.wantName(int8(e.a)))
	case allUp:
		return "every message reaches the leader, and it plans"
	case allDown:
		return "the plan is committed, and every answer arrives"
	case oneUp:
		return "arrives: " + w.up[a].words()
	case oneDown:
		return "arrives: " + w.down[a].words()
	case commits:
		return "the plan is committed, and the leader learns of it"
	case plans:
		return "the leader plans"
	case heals:
		return fmt.Sprintf("region %s can be reached again", regionName(a))
	case elects:
		return "a new leader is elected"
	case arrivesA:
		return fmt.Sprintf("a stuck command arrives at the store of region %s", regionName(a))
	case advances:
		return "the next step of the change is made"
	case renews:
		return fmt.Sprintf("daemon %d of region %s renews its chunk", b, regionName(a))
	case returns:
		return fmt.Sprintf("daemon %d of region %s brings its chunk back", b, regionName(a))
	case losesUp:
		return "lost: " + w.up[a].words()
	case losesDown:
		return "lost: " + w.down[a].words()
	case holdsUp:
		return "held back: " + w.up[a].words()
	case holdsDown:
		return "held back: " + w.down[a].words()
	case repeatsUp:
		return "arrives, and will again: " + w.up[a].words()
	case repeatsDown:
		return "arrives, and will again: " + w.down[a].words()
	case holdsCommit:
		return "the commit takes its time"
	case leaderDies, leaderGone, leaderLinger:
		return w.leaderWords(e)
	}
	return w.regionWords(e.kind, regionName(a), b)
}

func (w *world) leaderWords(e event) string {
	plan := ""
	if w.leads.pending != nil {
		plan = ", its plan lost"
		if e.a == 1 {
			plan = ", its plan committed"
		}
	}
	switch e.kind {
	case leaderDies:
		return "the leader dies" + plan + "; a new one is elected"
	case leaderGone:
		return "the leader dies" + plan + "; nobody leads"
	default:
		return "the leader is deposed and does not know" + plan + "; a new one is elected"
	}
}

func (w *world) regionWords(k kind, region string, b int) string {
	switch k {
	case asksOld:
		return fmt.Sprintf("region %s will ask the deposed leader", region)
	case restarts:
		return fmt.Sprintf("daemon %d of region %s restarts", b, region)
	case forgets:
		return fmt.Sprintf("daemon %d of region %s restarts without its file", b, region)
	case doubles:
		return fmt.Sprintf("region %s gets a second daemon%s", region, [...]string{"", ", and the first is cut off"}[b])
	case flushes:
		return fmt.Sprintf("the store of region %s loses everything", region)
	case rollsBack:
		return fmt.Sprintf("the store of region %s falls back to an older copy", region)
	case cuts:
		return fmt.Sprintf("region %s is cut off %s", region, [...]string{"", "upwards", "downwards", "both ways"}[b])
	case applySticks:
		return fmt.Sprintf("the next change of a share in region %s will get stuck on its way to the store", region)
	case applyMute:
		return fmt.Sprintf("the reply to the next change of a share in region %s will be lost", region)
	case lendSticks:
		return fmt.Sprintf("the next call about a chunk of daemon %d of region %s will get stuck on its way to the store", b, region)
	case lendMute:
		return fmt.Sprintf("the reply to the next call about a chunk of daemon %d of region %s will be lost", b, region)
	case reweighs:
		return fmt.Sprintf("region %s is given a weight of %d", region, otherWeight)
	case drains:
		return fmt.Sprintf("region %s is drained", region)
	case retimes:
		return fmt.Sprintf("a lease of %v is set", [...]time.Duration{shorterLease, longerLease}[region[0]-'a'])
	case takeSticks:
		return fmt.Sprintf("a request for all, in region %s by daemon %d, gets stuck on its way to the store", region, b)
	}
	panic("check: unknown event")
}

func regionName(i int) string { return string(rune('a' + i)) }

func (m *upMessage) words() string {
	if m.hello != nil {
		return fmt.Sprintf("%s's Hello %d", regionName(m.from.region), m.hello.Nonce)
	}
	text := fmt.Sprintf("%s's report %d", regionName(m.from.region), m.report.Seq)
	for _, k := range m.report.Keys {
		switch {
		case k.Cold:
			text += " (cold acknowledged)"
		case k.Gen.Epoch == 0:
			text += " (asks for the key)"
		default:
			text += fmt.Sprintf(" (holds %d.%d: %d/%d, released %d)", k.Gen.Epoch, k.Gen.Counter, k.Share.Rate, k.Share.Burst, k.Released)
		}
	}
	return text
}
