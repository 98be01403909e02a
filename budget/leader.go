package budget

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"aliquot/internal/hashslot"
)

// Leader is the leader's side of the protocol for one epoch: it folds reports into
// demand, plans shares, commits liabilities before what they allow is sent and
// after what they no longer cover is acknowledged, and renews leases only while
// everything it has sent is consistent. It is a deterministic machine: the same
// calls give the same effects. It is not safe for concurrent use, and is thrown
// away with its epoch: everything outside the ledger is soft.
type Leader struct {
	cfg     Config
	ledger  *Ledger
	epoch   uint64
	counter uint64 // of generations
	session uint64 // last one given out
	start   Instant

	regions []leaderRegion
	keys    map[KeyID]*leaderKey
	// order holds all keys, each at its place: walks neither sort nor follow a map.
	order []*leaderKey
	dirty []*leaderKey
	// creates are cold keys that some region asked to become hot, creating the set
	// of them and of those whose creation is being committed.
	creates  []create
	creating map[KeyID]bool
	// most is how many keys may be hot, held how many of a rule are or are about to be,
	// cooling how many of them all are on their way back to cold, and refused those that
	// found no place.
	most    int
	held    map[uint32]int
	cooling int
	refused map[KeyID]refused
	// over counts the keys whose sent shares and reserved floors sum above the
	// limit: while there is one, nobody's lease is renewed.
	over int

	committing *commit
	began      Instant // of the latest leadership proof that succeeded
	verifying  bool
	verifyFrom Instant
	nextSweep  Instant
	rules      uint64 // the version in force, as far as it was told
	ruleTail   func(rule uint32) time.Duration
	swept      int // keys that this round of the sweep has looked at
	turn       turn
	// delayed are keys of which something can be planned only when a tail is over.
	delayed []*leaderKey
	// urgent: a check may be waiting for what the next plan moves, so it is not left to the
	// next Tick.
	urgent bool
	claims []claim // memory for allocationOf
	stats  LeaderStats
	divide Divide // nil: allocate
}

// leaderRegion is what the leader knows of a region's daemon.
type leaderRegion struct {
	open        bool
	session     uint64
	incarnation uint64
	seq         uint64  // of the last report and of the directive that answers it
	adoptedAt   Instant // when this daemon first acknowledged this epoch's floors; 0: not yet
	sentAt      Instant
	ackedSentAt Instant // when the latest acknowledged directive was sent
	acked       bool
	live        bool
	leaseEnd    Instant // upper bound of any lease the region could hold; 0: none
	leaseOver   Instant // when the last of them had ended
	coolFrom    Instant // no key cools down before
	lastReport  Instant
	markedAt    Instant       // the last report that lets the region count as heard
	pace        time.Duration // of its reports of one busy key
	rules       uint64
	renewedAt   Instant // by this leader, in this session; 0: not yet

	waiting   bool // a report awaits its answer
	opening   bool // the latest report was one of a region that applies what the session began with
	waitSince Instant
	tSend     Instant
	hello     *Hello // awaits its answer
	helloAt   Instant
	outbox    []KeyID
	// unreached are the hash slots that the region cannot reach in its store, nil if there
	// are none, and kept the pending shares of keys in them; see Leader.stuck.
	unreached *hashslot.Set
	kept      []KeyID
	// unchanged are the keys of which the Hello said what the leader would have
	// told; the session's first report acknowledges them.
	unchanged []KeyID
	cold      []Action // for keys the ledger does not have; they get their generation when sent
	daemons   regionDaemons
}

// leaderKey is one hot key.
type leaderKey struct {
	id      KeyID
	at      int     // in Leader.order; -1 once it is gone
	shares  []Share // the liabilities, as the ledger has them
	limit   KeyLimit
	tail    time.Duration // the longest that the limit was said to have
	rules   uint64        // the version of the rules that limit is of
	since   uint64        // what was released under older rules is not counted
	delayed bool          // in Leader.delayed
	pool    int64         // released tokens that nobody holds
	regions []keyRegion
	dirty   bool
	settled bool // see Leader.steady
	over    bool
	cooling cooling
	used    Instant // when an admission was last learned of
	credit  int64   // how much may move without a rejection, in units of the limit
	moved   Instant
	// home is the region that holds a homed key, noHome before anyone has used it, and
	// homeSince when it became that.
	home      int
	homeSince Instant
	shrunk    Instant // when a share was last lowered
}

// cooling is how far a key is on its way back to cold.
type cooling uint8

const (
	hotKeyState cooling = iota
	toFloors            // every share goes back to the floor
	goingCold           // all are there; every region is told
	leaving             // all have acknowledged; the removal is being committed
)

// keyRegion is one region's share of one key.
type keyRegion struct {
	sent    Share // the share last sent, A in the protocol
	gen     Gen
	acked   bool // the exact (gen, sent) was reported
	pending bool // next goes out with the next directive
	next    Share
	grant   int64 // comes with next
	granted int64 // cumulative over the session
	cold    bool  // acknowledged the return to cold
	// outlasted: the exact (gen, sent) was reported, but use from before outlasts it: inUse
	// is what that took up when the region last told, 0 if no more than the share, and
	// looked that it has told in this session. label is the highest window told at an
	// acknowledgement; 0: none yet.
	outlasted bool
	inUse     int32
	looked    bool
	label     int64

	// shrinks: the share last sent, or about to be, is smaller than the one before.
	shrinks bool

	released int64
	tokens   int64
	used     int64 // of a limit that counts; see usedOf
	demand   demand
	planned  planned
	// homeUntil is when the region last ceased to be the home; 0: never in this reign.
	homeUntil Instant
}

// commit is the plan on its way through the log.
type commit struct {
	plan    Plan
	began   Instant
	grows   []growth
	creates []create
}

// create is a cold key that a region asked to become hot.
type create struct {
	region int
	report KeyReport
}

// growth is a share to be sent once its liability is committed.
type growth struct {
	key    KeyID
	region int
	from   Gen // what it grows from; another share sent since voids it
	share  Share
	// grant are the released tokens that come with it.
	grant int64
}

// Errors with which the leader refuses a message; each ends the session.
var (
	ErrRegionBusy    = errors.New("budget: another daemon of this region is reporting")
	ErrSessionClosed = errors.New("budget: this session is not open")
	ErrSuperseded    = errors.New("budget: superseded by a later message of this region")
	ErrMalformed     = errors.New("budget: malformed message")
)

// NewLeader starts an epoch that has just been minted in ledger, which must be a
// copy of its own. Every region counts as silent, and as holding a lease that an
// earlier leader may have renewed up to now.
func NewLeader(ledger *Ledger, now Instant) *Leader {
	l := &Leader{
		cfg: ledger.Config, ledger: ledger, epoch: ledger.Epoch, start: now,
		regions:  make([]leaderRegion, len(ledger.Config.Regions)),
		keys:     make(map[KeyID]*leaderKey, ledger.Len()),
		creating: map[KeyID]bool{}, most: MaxHotKeys, held: map[uint32]int{}, refused: map[KeyID]refused{},
	}
	for i := range l.regions {
		l.regions[i].leaseEnd = now.Add(l.cfg.LeasesOver())
	}
	l.order = make([]*leaderKey, 0, ledger.Len())
	for _, k := range ledger.Keys() {
		key := l.addKey(k, now)
		l.weigh(key)
		l.touch(key)
	}
	return l
}

// addKey takes up a key that the ledger has.
func (l *Leader) addKey(k KeyID, now Instant) *leaderKey {
	key := &leaderKey{
		id: k, at: len(l.order), shares: l.ledger.Shares(k),
		regions: make([]keyRegion, len(l.regions)), used: now, moved: now, home: noHome, since: l.rules,
	}
	for i := range key.regions {
		key.regions[i].sent = key.shares[i]
	}
	l.keys[k] = key
	l.hold(k, 1)
	l.order = append(l.order, key)
	return key
}

// forget lets a key go; the last one takes its place.
func (l *Leader) forget(key *leaderKey) {
	if key.over {
		l.over--
	}
	if key.cooling != hotKeyState {
		l.cooling--
	}
	last := l.order[len(l.order)-1]
	l.order[key.at], last.at = last, key.at
	l.order = slices.Delete(l.order, len(l.order)-1, len(l.order))
	key.at = -1
	delete(l.keys, key.id)
	l.hold(key.id, -1)
}

// Step takes one event at one instant and returns what is to be done about it, in
// order.
func (l *Leader) Step(ev LeaderEvent, now Instant) []LeaderEffect {
	out := l.passTime(now)
	l.rethink()
	switch e := ev.(type) {
	case HelloReceived:
		out = append(out, l.hello(e.Hello, now)...)
	case ReportReceived:
		out = append(out, l.report(e.Report, now)...)
	case Committed:
		l.committed(now)
		l.urgent = true // what was told meanwhile has waited long enough
	case Verified:
		l.verifying = false
		l.began = max(l.began, l.verifyFrom)
	case RulesChanged:
		l.dropRules(e.Kept)
		l.newRules(e.Version)
		l.ruleTail = e.Tail
	case DaemonLeft:
		l.daemonLeft(e)
	case Tick:
		out = append(out, l.plan(now)...)
	default:
		panic(fmt.Sprintf("budget: unknown leader event %T", ev))
	}
	l.rethink()
	if l.urgent {
		out = append(out, l.plan(now)...)
	}
	return append(out, l.answers(now)...)
}

// touch marks a key for the next plan.
func (l *Leader) touch(key *leaderKey) {
	if !key.dirty {
		key.dirty = true
		l.dirty = append(l.dirty, key)
	}
}

func (l *Leader) nextGen() Gen {
	l.counter++
	return Gen{Epoch: l.epoch, Counter: l.counter}
}

// EpochSpent reports whether half of the epoch's generations are used. Then a new leader is
// to be made with an epoch of its own: regions open new sessions with it, and their leases
// last through that. The other half is room for whoever cannot begin one at once.
func (l *Leader) EpochSpent() bool { return l.counter > maxCounter/2 }

// SpendGenerations has the leader go on as if it had given out so many generations more. It
// is for tests and simulations, which would take hours to use up an epoch.
func (l *Leader) SpendGenerations(n uint64) { l.counter += n }

func (l *Leader) dropRules(kept func(uint32) bool) {
	for _, key := range slices.Clone(l.order) {
		if kept(key.id.Rule) {
			continue
		}
		l.forget(key)
		l.ledger.set(Entry{Key: key.id})
		for i := range l.regions {
			if l.regions[i].open {
				l.sendCold(i, key.id)
			}
		}
	}
	for k := range l.refused {
		if !kept(k.Rule) {
			delete(l.refused, k)
		}
	}
	l.creates = slices.DeleteFunc(l.creates, func(r create) bool {
		if kept(r.report.Key.Rule) {
			return false
		}
		l.unmake(r.report.Key)
		return true
	})
}

// sendCold tells a region that a key the ledger does not have is cold. One that cannot be
// told now is told when it reports the key again, or says Hello.
func (l *Leader) sendCold(i int, k KeyID) {
	if l.stuck(i, k) {
		return
	}
	r := &l.regions[i]
	r.cold = append(r.cold, Action{Key: k, Share: l.cfg.Regions[i].Floor, Cold: true})
}

// LeaderStats counts since the epoch began.
type LeaderStats struct {
	Plans        uint64
	Looks        uint64 // keys that were planned, whatever came of it
	ShareChanges uint64
	Created      uint64
	Cooled       uint64
	Renewals     uint64
	// Refused counts requests for a key to become hot while the table was full.
	Refused uint64
}

// Stats returns the counters and the number of hot keys.
func (l *Leader) Stats() (stats LeaderStats, hotKeys int) { return l.stats, len(l.keys) }

// Epoch is the leader's epoch.
func (l *Leader) Epoch() uint64 { return l.epoch }

// ReleaseAll lets every report that is being held be answered at the next Step:
// there is news for all of them outside the machine (new rules).
func (l *Leader) ReleaseAll(now Instant) []LeaderEffect {
	for i := range l.regions {
		l.regions[i].waitSince = min(l.regions[i].waitSince, now.Add(-AnswerHold))
	}
	return l.answers(now)
}
