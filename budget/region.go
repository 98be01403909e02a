package budget

import (
	"time"

	"aliquot/internal/hashslot"
)

// Phase says what a region's right to spend is based on.
type Phase uint8

// The phases. The zero value is the most cautious one.
const (
	// Limbo: the lease has ended, or there was none yet. The right is the smaller of share and
	// floor.
	Limbo Phase = iota
	// Live: the lease holds. The right is the share.
	Live
	// CutOff: nothing was heard for so long that every other region has made room. The right is the
	// floor.
	CutOff
)

// String returns the phase's name. CutOff is "floor".
func (p Phase) String() string {
	switch p {
	case Live:
		return "live"
	case CutOff:
		return "floor"
	default:
		return "limbo"
	}
}

// Right is what a region may spend of one key at one instant.
type Right struct {
	// Hot: the key has a share of its own. If not, Gen and Share are zero and Floor applies.
	Hot   bool
	Gen   Gen
	Share Share
	// Floor is what a cold key may use. LimboFloor is what a cold key could use in limbo. It is for
	// a region that is cut off, when its store knows that another of its daemons was heard.
	Floor      Share
	LimboFloor Share
	// Told is the floor that the region was told, even if it may use less of it now. A record is
	// kept for as long as a bucket of that floor takes to fill.
	Told Share
	// FloorSince is when the floor last changed, 0 if no change matters any more. Low is the
	// smallest floor before and since then: no bucket has earned more than Low up to then.
	FloorSince Instant
	Low        Share
	Phase      Phase
	// Since is when the present phase began: a Live phase after a lapse, or a CutOff phase. It is 0
	// if no break matters.
	Since Instant
	// Until is when the lease ends (Live only).
	Until Instant
	// Watermark is the highest generation that was applied for any key. A record of a later
	// generation is newer than this Right.
	Watermark Gen
	// Blind: the daemon has not been told which keys are hot. If the store's contents are not the
	// first ones either, an absent record may be that of a lent key. A cut-off floor is then earned
	// from Since on only.
	Blind bool
}

// Effective returns the share that the right amounts to.
func (r Right) Effective() Share {
	if !r.Hot || r.Phase == CutOff {
		return r.Floor
	}
	if r.Phase == Limbo {
		return r.Share.Min(r.Floor)
	}
	return r.Share
}

// Region is a region's side of the protocol: which shares it holds, under which lease, and what it
// reports to the leader. It is a deterministic state machine: the same calls give the same effects.
// It is not safe for concurrent use.
type Region struct {
	self        int
	cfg         Config
	incarnation uint64

	storeEpoch   string
	initialEpoch string
	// unreached lists the hash slots whose server in the store does not answer; nil: none.
	unreached *hashslot.Set
	// blind: this incarnation has not been told yet which keys are hot.
	blind bool

	leaseEnd      Instant // 0: there is no lease, or its end was noticed
	liveSince     Instant
	lastDirective Instant
	marked        Instant // when the store was last marked: the region is heard

	floorVersion uint64 // of the floor's latest change
	floorOpened  uint64 // the one under which a session was opened
	floorSince   Instant

	highestEpoch uint64
	session      session
	helloNonce   uint64
	helloEpoch   string // the store contents that the Hello named
	helloFails   int
	nextHello    Instant
	inFlight     call
	applying     *applying

	hot        map[KeyID]*hotKey
	candidates map[KeyID]*candidate
	// asking holds the candidates that were not reported yet. asked holds those that were, ordered
	// by their latest report.
	asking, asked []*candidate
	watermark     Gen
	// reportable holds the hot keys with something to report, in the order in which that came up.
	reportable []KeyID
	urgent     bool
	part       int // the most changes in one ApplyShares
	// rules are those in force here. newRules: they were replaced since the latest directive.
	rules    RulesState
	newRules bool
	// coldAcks lists the keys that returned to cold since the last report.
	coldAcks []Action
	// outlasting lists the hot keys whose use outlasts a share that shrank.
	outlasting []KeyID
}

// session is one ordered stream of reports and directives. It is zero if there is none.
type session struct {
	// open: the answer to the Hello is applied completely. Until then the session's reports
	// acknowledge keys, but not the session.
	open     bool
	epoch    uint64
	id       uint64
	seq      uint64 // of the last report sent
	ack      uint64 // of the latest directive received, which in an open session is applied completely
	tSend    Instant
	lastSent Instant
}

// exists reports whether there is a session, open or not.
func (s *session) exists() bool { return s.id != 0 }

func (s *session) name() SessionID { return SessionID{Epoch: s.epoch, Number: s.id} }

// SessionID identifies a session of a region. The zero value identifies none.
type SessionID struct{ Epoch, Number uint64 }

// Before reports whether s is an earlier session than t of the same region.
func (s SessionID) Before(t SessionID) bool {
	return s.Epoch < t.Epoch || s.Epoch == t.Epoch && s.Number < t.Number
}

// Session returns the open session, or zero if none is open.
func (r *Region) Session() SessionID {
	if !r.session.open {
		return SessionID{}
	}
	return r.session.name()
}

// LatestSession returns the session in which the region reports, or is about to: the open session,
// or the one whose first shares are being applied. It is zero if there is neither.
func (r *Region) LatestSession() SessionID { return r.session.name() }

// call is the RPC in flight. There is at most one.
type call uint8

const (
	noCall call = iota
	helloCall
	reportCall
)

// applying is a directive whose shares the store is applying, part by part.
type applying struct {
	hello     bool
	seq       uint64
	renew     bool
	tSend     Instant
	began     Instant
	keys      int              // how many keys the directive has
	left      map[KeyID]Action // of the part that the store is applying
	rest      []Action         // of the later parts, in order
	useChecks []KeyID          // the keys whose use is examined after all changes
	void      bool             // the session was closed meanwhile
	oldRules  bool             // the rules were replaced meanwhile
	// noGrants: the directive's tokens are of a limit by older rules.
	noGrants bool
	// watermark is the latest generation in the directive, or the one that came with a HelloOK. It
	// counts once all of the directive is applied, because a key of a later part may have a record
	// of a generation in between.
	watermark Gen
}

type hotKey struct {
	gen               Gen
	share             Share
	limit             KeyLimit
	admitted          int64
	offered           int64
	released          int64
	reportedReleased  int64 // as of the latest report
	refunded          int64 // upper bound of what was given back of admitted
	toldAdmitted      int64 // admitted and refunded as of the latest report of the session
	toldRefunded      int64
	granted           int64
	tokens            int64
	used              Instant       // when a request was last decided
	gap               time.Duration // the longest recent pause between two requests
	rejecting         bool
	served            bool // the latest request was admitted
	asked             bool // a request came since the latest report
	reportedRejecting bool // the latest report said that the key rejects
	queued            bool // the key is in reportable
	mustAck           bool
	lastReport        Instant
	// inUse is the part of the limit taken up by use from before the share shrank, 0 if the share
	// covers it. checkUseAt is when to examine the store again. outlasting: the key is in
	// Region.outlasting.
	inUse      int32
	checkUseAt Instant
	outlasting bool
	label      int64         // of the store's window when it was last examined
	labelTail  time.Duration // of the limit with those windows
	// unenforced: the store does not have this share. Nothing is reported of it, and it is tried
	// again at checkUseAt.
	unenforced bool
}

type candidate struct {
	key        KeyID
	gone       bool // it is no candidate any more
	limit      KeyLimit
	admitted   int64
	offered    int64
	tokens     int64
	rejecting  bool
	lastUsed   Instant
	lastReport Instant
}

// NewRegion returns the state machine of a daemon that has just started, whatever the daemon did
// before. It holds no lease, and counts as having heard a directive just now. cfg may be the zero
// value until the first Hello is answered; until then nothing can be spent.
func NewRegion(self int, cfg Config, incarnation uint64, now Instant) *Region {
	return &Region{
		self: self, cfg: cfg, incarnation: incarnation,
		blind: true, lastDirective: now, part: applyPart,
		hot: map[KeyID]*hotKey{}, candidates: map[KeyID]*candidate{},
	}
}

// ApplyAtMost sets the most changes that one ApplyShares has; the default is 128. It is for models,
// whose worlds have few keys. n is at least 1.
func (r *Region) ApplyAtMost(n int) { r.part = n }

// Config returns the configuration in force. It has no regions before the first one is known.
func (r *Region) Config() Config { return r.cfg }

// Self returns the region's index in Config.
func (r *Region) Self() int { return r.self }

// Phase returns the phase at now, for limits without a Tail.
func (r *Region) Phase(now Instant) Phase { return r.phaseOf(KeyLimit{}, now) }

// phaseOf returns the phase of a key's right.
func (r *Region) phaseOf(limit KeyLimit, now Instant) Phase {
	switch {
	case r.leaseEnd != 0 && now < r.leaseEnd:
		return Live
	case now < r.floorAt(limit):
		return Limbo
	default:
		return CutOff
	}
}

// floorAt returns when every other region has made room for the region's floor, and what they used
// before no longer counts.
func (r *Region) floorAt(limit KeyLimit) Instant {
	return r.lastDirective.Add(r.cfg.FloorAfterUse(limit.Tail))
}

// StoreStartedFull reports whether an absent cold bucket is full. It is only in the first store
// contents of a region that was declared at the bootstrap.
func (r *Region) StoreStartedFull() bool {
	return r.storeEpoch != "" && r.storeEpoch == r.initialEpoch
}

// Right returns what the region may spend of k. limit is the key's limit by the rules of this
// region. Without a configuration the right is nothing.
func (r *Region) Right(k KeyID, limit KeyLimit, now Instant) Right {
	if len(r.cfg.Regions) == 0 {
		return Right{}
	}
	right := Right{Floor: r.toldFloor(), Told: r.toldFloor(), Phase: r.phaseOf(limit, now), Watermark: r.watermark, Blind: r.blind}
	if r.floorSince != 0 {
		right.FloorSince, right.Low = r.floorSince, r.cfg.Regions[r.self].Low
	}
	switch right.Phase {
	case Live:
		right.Since, right.Until = r.liveSince, r.leaseEnd
	case CutOff:
		right.Since = r.floorAt(limit)
		if whole := r.cfg.Regions[r.self].Floor; right.Floor != whole {
			// Every other region has made room for all of it.
			right.Floor, right.FloorSince = whole, max(right.FloorSince, right.Since)
		}
		right.LimboFloor = r.limboFloor(r.toldFloor())
		if r.blind {
			// A record may remember any share of that epoch. Every other region has made room for
			// the floor since.
			right.Watermark = Gen{Epoch: r.highestEpoch, Counter: maxCounter}
		}
	case Limbo:
		right.Floor = r.limboFloor(right.Floor)
	}
	if h := r.hot[k]; h != nil {
		right.Hot, right.Gen, right.Share = true, h.gen, h.share
	}
	return right
}

// Elsewhere reports whether other regions may hold what a right lacks, and would lend it. The
// leader must be heard. Then one of these holds:
//   - Unused parts of the limit are lent, and others hold more than they keep.
//   - The limit has a home, and the right is at most the floor.
//   - The limit is split by default and slow, and others hold more than they keep. Either the key is
//     cold, or the region has lent half of its floor. It is not elastic, since the whole burst has
//     been here then.
//
// A limit comes in parts, one from each region. begun reports that one has come, or that the key has
// just become hot: then a check waits as long as others hold more than they keep.
func (r *Region) Elsewhere(right Right, limit KeyLimit, begun, elastic bool) bool {
	if right.Phase != Live {
		return false
	}
	homed, floor := r.cfg.Homed(limit), right.Floor
	switch {
	case limit.LendsUnused() || begun && homed:
	case homed:
		return floor.Rate > 0 && floor.Rate < Unit && (!right.Hot || right.Share.Rate <= floor.Rate)
	case limit.Placement != PlacementAuto || elastic || !earnsSlowly(limit, floor.Rate):
		return false
	case right.Hot && !begun && right.Share.Burst >= floor.Burst/2:
		return false
	}
	return right.Effective().Burst < r.lendable(limit)
}

// lendable returns the most that the region could hold of a limit, if others lend what they do not
// keep.
func (r *Region) lendable(limit KeyLimit) int32 {
	maxBurst := int32(Unit)
	for i := range r.cfg.Regions {
		if i != r.self {
			maxBurst -= r.cfg.ConnectedFloor(r.cfg.Regions[i].Told, limit).Burst
		}
	}
	return maxBurst
}

// Usage is one decision made by the region's store.
type Usage struct {
	// Rules are those by which the decision was made, and Limit is the key's by them. If they are not those
	// in force, the limit is not told to the leader.
	Rules    RulesState
	Limit    KeyLimit
	Cost     int64 // micro-tokens
	Admitted bool
	// Tokens are what the bucket held afterwards. FloorCap is the floor's part of the capacity.
	// ColdCap is the most that the bucket holds while cold: FloorCap, or more for an elastic limit.
	// All are micro-tokens.
	Tokens   int64
	FloorCap int64
	ColdCap  int64
}

// Observe counts one decision. It reports whether to wake the reporter because a key has begun to
// run short.
func (r *Region) Observe(k KeyID, u Usage, now Instant) (wake bool) {
	if h := r.hot[k]; h != nil {
		return r.observeHot(k, h, u, now)
	}
	return r.observeCold(k, u, now)
}

func (r *Region) observeHot(k KeyID, h *hotKey, u Usage, now Instant) bool {
	h.use(now)
	h.tokens = u.Tokens
	if u.Rules == r.rules {
		h.limit, h.asked = u.Limit, true
	}
	h.offered = counted(h.offered, u.Cost)
	h.served = u.Admitted
	onset := false
	switch {
	case !u.Admitted:
		onset = !h.rejecting
		h.rejecting = true
	case !h.unenforced: // see Reports: what is admitted meanwhile is told beside the counters
		h.admitted = counted(h.admitted, u.Cost)
	}
	r.queue(k, h)
	r.urgent = r.urgent || onset
	return onset
}

// maxCounted bounds the counters of a key in a session. Denied requests of a very large limit would
// exceed an int64 within minutes, and a negative counter ends the session. A key whose counters no
// longer grow looks unused: it goes cold, and is counted from 0 when it is hot again.
const maxCounted = 1 << 62

// counted returns a counter after an amount was added. Neither may be negative.
func counted(before, amount int64) int64 { return before + min(amount, maxCounted-before) }

// use records a request. A pause is forgotten after steady use of four times its length.
func (h *hotKey) use(now Instant) {
	if h.used != 0 {
		gap := now.Sub(h.used)
		h.gap = max(gap, h.gap-gap/4)
	}
	h.used = now
}

// observeCold makes a cold key a candidate once half of its floor is used. That is early enough to
// hide the round trips until the leader has made it hot.
func (r *Region) observeCold(k KeyID, u Usage, now Instant) bool {
	if u.Rules != r.rules {
		return false // it would be asked for with the limit of other rules
	}
	c := r.candidates[k]
	if c == nil {
		if u.Admitted && (u.ColdCap-u.Tokens)*2 <= u.FloorCap || len(r.candidates) >= maxCandidates {
			return false
		}
		c = &candidate{key: k}
		r.candidates[k] = c
		r.asking = append(r.asking, c)
		r.urgent = true
	}
	c.limit, c.tokens, c.lastUsed = u.Limit, u.Tokens, now
	c.offered = counted(c.offered, u.Cost)
	onset := false
	if u.Admitted {
		c.admitted = counted(c.admitted, u.Cost)
	} else {
		onset = !c.rejecting
		c.rejecting = true
	}
	return onset || r.urgent
}

// dropCandidate withdraws the request to make a key hot.
func (r *Region) dropCandidate(k KeyID) {
	if c := r.candidates[k]; c != nil {
		c.gone = true
		delete(r.candidates, k)
	}
}

func (r *Region) queue(k KeyID, h *hotKey) {
	if !h.queued {
		h.queued = true
		r.reportable = append(r.reportable, k)
	}
}

// Rules returns the rules in force in the region.
func (r *Region) Rules() RulesState { return r.rules }

// RegionInfo is a region's state for display.
type RegionInfo struct {
	Phase          Phase
	LeaseRemaining time.Duration
	SessionOpen    bool
	Epoch          uint64
	HotKeys        int
	Candidates     int
	StoreEpoch     string
	// Applying is how many keys the directive has whose shares are being applied. Applied is how
	// many of them the store has applied. Both are 0 if there is no such directive.
	Applying, Applied int
}

// Info describes the region at now.
func (r *Region) Info(now Instant) RegionInfo {
	info := RegionInfo{
		Phase: r.Phase(now), SessionOpen: r.session.open, Epoch: r.highestEpoch,
		HotKeys: len(r.hot), Candidates: len(r.candidates), StoreEpoch: r.storeEpoch,
	}
	if info.Phase == Live {
		info.LeaseRemaining = r.leaseEnd.Sub(now)
	}
	if a := r.applying; a != nil {
		info.Applying, info.Applied = a.keys, a.keys-len(a.left)-len(a.rest)
	}
	return info
}
