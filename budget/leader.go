package budget

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"aliquot/internal/hashslot"
)

// Leader is the leader's side of the protocol for one epoch. It folds reports into demand and plans
// shares. It commits a liability before it sends a share that needs it, and lowers one after the
// region has acknowledged that it no longer needs it. It renews leases only while everything it has
// sent is consistent.
//
// Leader is a deterministic state machine: the same calls give the same effects. It is not safe for
// concurrent use. It is discarded with its epoch: nothing outside the ledger outlives it.
type Leader struct {
	cfg     Config
	ledger  *Ledger
	epoch   uint64
	counter uint64 // the counter of the latest generation
	session uint64 // the latest session number that was assigned
	start   Instant
	// fenced is what regions had that were fenced, and anyFenced whether there are any; see fencedFloors.
	fenced    Share
	anyFenced bool

	regions []leaderRegion
	keys    map[KeyID]*leaderKey
	// found has the keys of the latest report. Each report uses its memory again.
	found []*leaderKey
	// order holds all keys, each at leaderKey.at, so that a walk over the keys neither sorts nor
	// follows a map.
	order []*leaderKey
	dirty []*leaderKey
	// creates lists the cold keys that some region asked to become hot. creating is the set of
	// those and of the keys whose creation is being committed.
	creates  []create
	creating map[KeyID]bool
	// most is how many keys may be hot. held counts, by rule, the keys that are hot or about to be.
	// cooling counts the hot keys that are returning to cold. refused holds the keys for which the
	// table had no room.
	maxHot  int
	held    map[uint32]int
	cooling int
	refused map[KeyID]refused
	// over counts the keys whose sent shares and reserved floors sum above the limit. While there
	// is one, no lease is renewed.
	over int

	committing *commit
	began      Instant // the start of the latest leadership proof that succeeded
	verifying  bool
	verifyFrom Instant
	nextSweep  Instant
	rules      RulesState // the rules in force, as far as this leader was told
	newest     RulesState // the newest rules that a region may use, as far as this leader was told
	ruleTail   func(rule uint32) time.Duration
	swept      int // how many keys this round of the sweep has examined
	changes    changes
	// delayed lists the keys that cannot be planned further before a tail has passed.
	delayed []*leaderKey
	// urgent: a check may be waiting for what the next plan moves, so the plan does not wait for
	// the next Tick.
	urgent bool
	claims []claim // memory that allocationOf reuses
	stats  LeaderStats
	divide Divide // nil: allocate
}

// leaderRegion is what the leader knows of a region's daemon.
type leaderRegion struct {
	open        bool
	session     uint64
	incarnation uint64
	seq         uint64  // of the latest report and of the directive that answers it
	adoptedAt   Instant // when this daemon first acknowledged this epoch's floors; 0: not yet
	sentAt      Instant
	ackedSentAt Instant // when the latest acknowledged directive was sent
	acked       bool
	live        bool
	leaseEnd    Instant // upper bound of any lease the region could hold; 0: none
	leaseOver   Instant // when the latest lease of the region had ended
	coolFrom    Instant // no key cools down before this instant
	lastReport  Instant
	markedAt    Instant       // the latest report that counts as hearing the region
	pace        time.Duration // the interval of its reports of one busy key
	rules       RulesState
	renewedAt   Instant // when this leader last renewed the lease in this session; 0: not yet

	waiting   bool // a report awaits its answer
	opening   bool // the latest report came from a region that was still applying the answer to its Hello
	waitSince Instant
	tSend     Instant
	hello     *Hello // awaits its answer
	helloAt   Instant
	outbox    []KeyID
	// unreached lists the hash slots that the region cannot reach in its store, nil if there are
	// none. kept holds the pending shares of keys in those slots; see Leader.stuck.
	unreached *hashslot.Set
	kept      []KeyID
	// unchanged lists the keys for which the Hello said what the leader would have told. The
	// session's first report acknowledges them.
	unchanged []KeyID
	cold      []Action // for keys that are not in the ledger; they get their generation when sent
	daemons   regionDaemons
}

// leaderKey is one hot key.
type leaderKey struct {
	id      KeyID
	at      int     // the key's index in Leader.order; -1 once it is removed
	shares  []Share // the liabilities in the ledger
	limit   KeyLimit
	tail    time.Duration // the longest tail that was reported for the limit
	rules   RulesState    // the rules that limit belongs to
	since   RulesState    // tokens released under older rules are not counted
	delayed bool          // the key is in Leader.delayed
	// fencedUseOver: what fenced regions had in use of the key no longer counts; see fenced.
	fencedUseOver bool
	pool          int64 // released tokens that no region holds
	regions       []keyRegion
	dirty         bool
	settled       bool // see Leader.steady
	over          bool // see Leader.weigh
	tailed        bool // whether a tail counted when the key was weighed
	unweighed     bool // what is reserved may have changed since
	cooling       cooling
	used          Instant // when the leader last learned of an admission
	credit        int64   // how much may move without a rejection, in units of the limit
	moved         Instant
	// home is the region that holds a homed key, noHome before any region has used it. homeSince is
	// when it became the home.
	home      int
	homeSince Instant
	short     Instant // when a home was last short of tokens; see homeShort. 0: never
	shrunk    Instant // when a share was last lowered
}

// cooling says how far a key has returned to cold.
type cooling uint8

const (
	hotKeyState cooling = iota
	toFloors            // every share returns to the floor
	goingCold           // every share is the floor, and each region is being told that the key is cold
	leaving             // all regions have acknowledged, and the removal is being committed
)

// keyRegion is one region's share of one key.
type keyRegion struct {
	sent    Share // the share last sent: A in the protocol
	gen     Gen
	acked   bool // a report confirmed exactly (gen, sent)
	pending bool // next is sent with the next directive
	next    Share
	grant   int64 // the tokens that come with next
	granted int64 // cumulative over the session
	cold    bool  // the region acknowledged the return to cold
	// outlasted: a report confirmed exactly (gen, sent), but earlier use outlasts that share. inUse
	// is what the use took up when the region last reported it, 0 if no more than the share.
	// looked: the region has reported its use in this session. label is the highest window reported
	// with an acknowledgement; 0: none yet. labelTail is the tail of the limit with those windows.
	outlasted   bool
	inUse       int32
	useReported bool
	// lost: the region's store does not know its use, and counts everything as in use.
	lost      bool
	label     int64
	labelTail time.Duration

	// shrinks: the share last sent, or about to be sent, is smaller than the one before.
	shrinks bool

	released int64
	tokens   int64
	used     int64 // of a counting limit; see usedOf
	demand   demand
	planned  planned
	// homeUntil is when the region last ceased to be the home; 0: never in this epoch.
	homeUntil Instant
}

// commit is a plan that is being replicated.
type commit struct {
	plan    Plan
	began   Instant
	grows   []growth
	creates []create
}

// create is the request of a region to make a cold key hot.
type create struct {
	region int
	report KeyReport
	rules  RulesState // those of the report
}

// growth is a share that is sent once its liability is committed.
type growth struct {
	key    KeyID
	region int
	from   Gen // the generation it grows from; a share sent since then voids the growth
	share  Share
	// grant is the amount of released tokens that comes with it.
	grant int64
}

// Errors with which the leader refuses a message. Each of them ends the session.
var (
	ErrRegionBusy    = errors.New("budget: another daemon of this region is reporting")
	ErrSessionClosed = errors.New("budget: this session is not open")
	ErrSuperseded    = errors.New("budget: superseded by a later message of this region")
	ErrMalformed     = errors.New("budget: malformed message")
)

// NewLeader starts an epoch that was just created in ledger. The leader needs a ledger of its own,
// so pass a copy. Every region counts as silent, and as holding a lease that an earlier leader may
// have renewed up to now.
func NewLeader(ledger *Ledger, now Instant) *Leader {
	l := &Leader{
		cfg: ledger.Config, ledger: ledger, epoch: ledger.Epoch, start: now,
		regions:  make([]leaderRegion, len(ledger.Config.Regions)),
		keys:     make(map[KeyID]*leaderKey, ledger.Len()),
		creating: map[KeyID]bool{}, maxHot: MaxHotKeys, held: map[uint32]int{}, refused: map[KeyID]refused{},
	}
	l.fenced, l.anyFenced = l.cfg.fencedFloors()
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

// addKey starts to keep track of a key that is in the ledger.
func (l *Leader) addKey(k KeyID, now Instant) *leaderKey {
	key := &leaderKey{
		id: k, at: len(l.order), shares: l.ledger.Shares(k),
		regions: make([]keyRegion, len(l.regions)), used: now, moved: now, home: noHome, since: l.rules, unweighed: true,
	}
	for i := range key.regions {
		key.regions[i].sent = key.shares[i]
	}
	l.keys[k] = key
	l.countHot(k, 1)
	l.order = append(l.order, key)
	return key
}

// forget removes a key. The last key of order takes its place.
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
	l.countHot(key.id, -1)
}

// Step applies one event at an instant and returns the effects to carry out, in order.
func (l *Leader) Step(ev LeaderEvent, now Instant) []LeaderEffect {
	out := l.passTime(now)
	l.applyRegionChanges()
	switch e := ev.(type) {
	case HelloReceived:
		out = append(out, l.hello(e.Hello, now)...)
	case ReportReceived:
		out = append(out, l.report(e.Report, now)...)
	case Committed:
		l.committed(now)
		l.urgent = true // messages received meanwhile have waited long enough
	case Verified:
		l.verifying = false
		l.began = max(l.began, l.verifyFrom)
	case RulesChanged:
		l.dropRules(e.Kept)
		l.newRules(RulesState{Version: e.Version})
		l.rulesTold(RulesState{Version: max(e.Version, e.Newest)})
		l.ruleTail = e.Tail
		l.weighFenced()
	case DaemonLeft:
		l.daemonLeft(e)
	case Tick:
		out = append(out, l.plan(now)...)
	default:
		panic(fmt.Sprintf("budget: unknown leader event %T", ev))
	}
	l.applyRegionChanges()
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

// EpochSpent reports whether half of the epoch's generations are used. The caller must then create
// a new epoch and a new leader. The regions open new sessions with it, and their leases last
// through the change. The other half of the generations is room for a leader that cannot be
// replaced at once.
func (l *Leader) EpochSpent() bool { return l.counter > maxCounter/2 }

// SpendGenerations skips n generations, as if the leader had sent that many. It is for tests and
// simulations, which would take hours to use up an epoch.
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
		l.endCreation(r.report.Key)
		return true
	})
}

// sendCold tells a region that a key outside the ledger is cold. A region that cannot be told now
// is told when it reports the key again or says Hello.
func (l *Leader) sendCold(i int, k KeyID) {
	if l.stuck(i, k) {
		return
	}
	r := &l.regions[i]
	r.cold = append(r.cold, Action{Key: k, Share: l.cfg.Regions[i].Floor, Cold: true})
}

// LeaderStats counts events since the epoch began.
type LeaderStats struct {
	Plans        uint64
	Looks        uint64 // keys that were planned, with or without a change
	ShareChanges uint64
	Created      uint64
	Cooled       uint64
	Renewals     uint64
	// Refused counts requests for a key to become hot while the table was full.
	Refused uint64
}

// Stats returns the counters and the number of hot keys.
func (l *Leader) Stats() (stats LeaderStats, hotKeys int) { return l.stats, len(l.keys) }

// Epoch returns the leader's epoch.
func (l *Leader) Epoch() uint64 { return l.epoch }

// ReleaseAll lets the next Step answer every report that is being held. The caller has news for all
// regions that the state machine does not know of: new rules.
func (l *Leader) ReleaseAll(now Instant) []LeaderEffect {
	for i := range l.regions {
		l.regions[i].waitSince = min(l.regions[i].waitSince, now.Add(-AnswerHold))
	}
	return l.answers(now)
}
