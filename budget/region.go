package budget

import (
	"time"

	"aliquot/internal/hashslot"
)

// Phase says what backs a region's right to spend.
type Phase uint8

// The phases; the zero value is the most cautious one.
const (
	// Limbo: the lease has ended (or none was had yet): the smaller of share
	// and floor.
	Limbo Phase = iota
	// Live: the lease holds: the share.
	Live
	// CutOff: nothing was heard for so long that everyone has made room: the
	// floor.
	CutOff
)

// String is the phase's name.
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
	// Hot tells whether the key has a share of its own; if not, Gen and Share are
	// zero and Floor applies.
	Hot   bool
	Gen   Gen
	Share Share
	// Floor is what a cold key may use. LimboFloor is what it would be in limbo, for a
	// cut-off region whose store knows that another of its daemons was heard.
	Floor      Share
	LimboFloor Share
	// Told is the floor that the region was told, whatever it may use of it now: a record
	// is kept for as long as one of that floor needs to be full.
	Told Share
	// FloorSince is when the floor last changed, 0 if no change matters any more,
	// and Low the smallest floor before and since: no bucket has earned more than
	// that up to then.
	FloorSince Instant
	Low        Share
	Phase      Phase
	// Since is when the present phase began, for Live after a lapse and for
	// CutOff; 0 if there was no break that matters.
	Since Instant
	// Until is when the lease ends (Live only).
	Until Instant
	// Watermark is the highest generation applied for any key: a record of a
	// later one is newer than this Right.
	Watermark Gen
	// Blind: the daemon has not been told which keys are hot. If the store's
	// contents are not the first ones either, an absent record may be that of a
	// lent key, so a cut-off floor is earned from Since on only.
	Blind bool
}

// Effective is the share the right amounts to.
func (r Right) Effective() Share {
	if !r.Hot || r.Phase == CutOff {
		return r.Floor
	}
	if r.Phase == Limbo {
		return r.Share.Min(r.Floor)
	}
	return r.Share
}

// Region is a region's side of the protocol: which shares it holds, under which
// lease, and what it tells the leader. It is a deterministic machine: the same
// calls give the same effects. It is not safe for concurrent use.
type Region struct {
	shard       uint32 // of the ledger it reports to: 0, there is one
	self        int
	cfg         Config
	incarnation uint64

	storeEpoch   string
	initialEpoch string
	// unreached are the hash slots whose server in the store does not answer; nil: none.
	unreached *hashslot.Set
	// blind: this incarnation has not been told yet which keys are hot.
	blind bool

	leaseEnd      Instant // 0: no lease, or it has been noticed to have ended
	liveSince     Instant
	lastDirective Instant
	marked        Instant // when the store was last told that the region is heard

	floorVersion uint64 // of the latest change of the floor
	floorOpened  uint64 // the one under which a session has been opened
	floorSince   Instant

	highestEpoch uint64
	session      session
	helloNonce   uint64
	helloEpoch   string // the store contents it told of
	helloFails   int
	nextHello    Instant
	inFlight     call
	applying     *applying

	hot        map[KeyID]*hotKey
	candidates map[KeyID]*candidate
	// asking and asked hold the candidates that were not reported yet and those that
	// were, by the time of their latest report.
	asking, asked []*candidate
	watermark     Gen
	// reportable holds the hot keys with something to report, in the order in
	// which they got it.
	reportable []KeyID
	urgent     bool
	part       int // how many changes one ApplyShares has at most
	// newRules: the rules were replaced since the latest directive.
	newRules bool
	// coldAcks are the keys that went back to cold since the last report.
	coldAcks []Action
	// outlasting are the hot keys whose use outlasts a share that shrank.
	outlasting []KeyID
}

// session is one ordered stream of reports and directives; zero if there is none.
type session struct {
	// open: what it began with is applied whole. Until then its reports acknowledge keys, and
	// not the session.
	open     bool
	epoch    uint64
	id       uint64
	seq      uint64 // of the last report sent
	ack      uint64 // of the last directive received, and while open applied whole
	tSend    Instant
	lastSent Instant
}

// exists reports whether there is a session, open or not.
func (s *session) exists() bool { return s.id != 0 }

func (s *session) name() SessionID { return SessionID{Epoch: s.epoch, Number: s.id} }

// SessionID names a session of a region. The zero value names none.
type SessionID struct{ Epoch, Number uint64 }

// Before reports whether s is an earlier session than t of the same region.
func (s SessionID) Before(t SessionID) bool {
	return s.Epoch < t.Epoch || s.Epoch == t.Epoch && s.Number < t.Number
}

// Session is the session that is open; zero if none is.
func (r *Region) Session() SessionID {
	if !r.session.open {
		return SessionID{}
	}
	return r.session.name()
}

// LatestSession is the session that the region reports in, or is about to: the one that is
// open, or whose beginning is being applied; zero if there is neither.
func (r *Region) LatestSession() SessionID { return r.session.name() }

// call is the RPC in flight: at most one.
type call uint8

const (
	noCall call = iota
	helloCall
	reportCall
)

// applying is a directive whose shares the store is applying, part by part.
type applying struct {
	hello    bool
	seq      uint64
	renew    bool
	tSend    Instant
	began    Instant
	keys     int              // of the directive
	left     map[KeyID]Action // of the part that the store has
	rest     []Action         // of the parts to come, in order
	looks    []KeyID          // at the use of keys, after all of them
	void     bool             // the session was closed meanwhile
	oldRules bool             // the rules were replaced meanwhile
	// noGrants: the tokens that come with it are of a limit by older rules.
	noGrants bool
	// watermark is the latest generation in it, or what came with a HelloOK. It counts when
	// all of the directive is applied: a key of a part to come may have a record of a
	// generation between.
	watermark Gen
}

type hotKey struct {
	gen          Gen
	share        Share
	limit        KeyLimit
	admitted     int64
	offered      int64
	released     int64
	toldReleased int64 // by the latest report
	refunded     int64 // at most, of what was admitted
	granted      int64
	tokens       int64
	used         Instant       // when a request was last decided
	gap          time.Duration // longest of late between two of them
	rejecting    bool
	asked        bool // a request came since the latest report
	told         bool // the latest report said that it rejects
	queued       bool // in reportable
	mustAck      bool
	lastReport   Instant
	// inUse is the part of the limit that use from before the share shrank takes up, 0
	// if the share covers it; lookAt is when to look at the store again, and outlasting
	// tells that the key is in the list of those.
	inUse      int32
	lookAt     Instant
	outlasting bool
	label      int64 // of the store's window when last looked at
	// unenforced: the store does not have this share, so nothing is reported of it, and it
	// is tried again at lookAt.
	unenforced bool
}

type candidate struct {
	key        KeyID
	gone       bool // no candidate any more
	limit      KeyLimit
	admitted   int64
	offered    int64
	tokens     int64
	rejecting  bool
	lastUsed   Instant
	lastReport Instant
}

// NewRegion is a daemon that has just started, whatever it did before: it holds
// no lease, and counts as having heard a directive just now. cfg may be the zero
// value until the first Hello is answered; nothing can be spent before.
func NewRegion(self int, cfg Config, incarnation uint64, now Instant) *Region {
	return &Region{
		self: self, cfg: cfg, incarnation: incarnation,
		blind: true, lastDirective: now, part: applyPart,
		hot: map[KeyID]*hotKey{}, candidates: map[KeyID]*candidate{},
	}
}

// ApplyAtMost sets how many changes one ApplyShares has at most, 128 if it is never called;
// for models, whose worlds have few keys. n is at least 1.
func (r *Region) ApplyAtMost(n int) { r.part = n }

// Config is the configuration in force; no regions before the first is known.
func (r *Region) Config() Config { return r.cfg }

// Self is the region's index in Config.
func (r *Region) Self() int { return r.self }

// Phase is the phase at now, for limits without a Tail.
func (r *Region) Phase(now Instant) Phase { return r.phaseOf(KeyLimit{}, now) }

// phaseOf is the phase of a key's rights.
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

// floorAt is when everyone has made room for the region's floor, and what they used
// before they did counts no more.
func (r *Region) floorAt(limit KeyLimit) Instant {
	return r.lastDirective.Add(r.cfg.FloorAfterUse(limit.Tail))
}

// StoreStartedFull reports whether an absent cold bucket is a full one: only in
// the first store contents of a region declared at the bootstrap.
func (r *Region) StoreStartedFull() bool {
	return r.storeEpoch != "" && r.storeEpoch == r.initialEpoch
}

// Right is what the region may spend of k, whose limit is given as the rules here
// have it. Without a configuration it is nothing.
func (r *Region) Right(k KeyID, limit KeyLimit, now Instant) Right {
	if len(r.cfg.Regions) == 0 {
		return Right{}
	}
	right := Right{Floor: r.told(), Told: r.told(), Phase: r.phaseOf(limit, now), Watermark: r.watermark, Blind: r.blind}
	if r.floorSince != 0 {
		right.FloorSince, right.Low = r.floorSince, r.cfg.Regions[r.self].Low
	}
	switch right.Phase {
	case Live:
		right.Since, right.Until = r.liveSince, r.leaseEnd
	case CutOff:
		right.Since = r.floorAt(limit)
		if whole := r.cfg.Regions[r.self].Floor; right.Floor != whole {
			// Everyone has made room for all of it.
			right.Floor, right.FloorSince = whole, max(right.FloorSince, right.Since)
		}
		right.LimboFloor = r.limboFloor(r.told())
		if r.blind {
			// Whatever share of that epoch a record remembers, everyone has made
			// room for the floor since.
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

// Elsewhere reports whether others may hold what a right lacks, and would lend it: the leader
// is heard, and either the limit has a home and the right is no more than the floor, or the
// limit is one of which what is not used is lent, and others hold more than they keep of it.
func (r *Region) Elsewhere(right Right, limit KeyLimit) bool {
	if right.Phase != Live {
		return false
	}
	if limit.lendsUnused() {
		return right.Effective().Burst < r.lendable(limit)
	}
	if !r.cfg.Homed(limit) {
		return false
	}
	floor := right.Floor.Rate
	return floor > 0 && floor < Unit && (!right.Hot || right.Share.Rate <= floor)
}

// lendable is what the region could hold of a limit at the most, if others lend what they do
// not keep.
func (r *Region) lendable(limit KeyLimit) int32 {
	most := int32(Unit)
	for i := range r.cfg.Regions {
		if i != r.self {
			most -= ConnectedFloor(r.cfg.Regions[i].Told, limit).Burst
		}
	}
	return most
}

// Usage is one decision as the region's store made it.
type Usage struct {
	Limit    KeyLimit
	Cost     int64 // micro-tokens
	Admitted bool
	// Tokens are what the bucket held afterwards, FloorCap the floor's part of the
	// capacity, and ColdCap what the bucket holds at most while cold: FloorCap, or
	// more for an elastic limit. Micro-tokens.
	Tokens   int64
	FloorCap int64
	ColdCap  int64
}

// Observe counts one decision and reports whether the reporter should be woken:
// a key has begun to run short.
func (r *Region) Observe(k KeyID, u Usage, now Instant) (wake bool) {
	if h := r.hot[k]; h != nil {
		return r.observeHot(k, h, u, now)
	}
	return r.observeCold(k, u, now)
}

func (r *Region) observeHot(k KeyID, h *hotKey, u Usage, now Instant) bool {
	h.use(now)
	h.limit, h.tokens = u.Limit, u.Tokens
	h.asked = true
	h.offered = counted(h.offered, u.Cost)
	onset := false
	if u.Admitted {
		h.admitted = counted(h.admitted, u.Cost)
	} else {
		onset = !h.rejecting
		h.rejecting = true
	}
	r.queue(k, h)
	r.urgent = r.urgent || onset
	return onset
}

// maxCounted bounds what is counted of a key in a session: denied requests of a very
// large limit would be beyond an int64 within minutes, and a negative counter ends the
// session. A key whose counters stand still looks unused: it goes cold, and when it is hot
// again it is counted anew.
const maxCounted = 1 << 62

// counted is a counter after an amount; neither is negative.
func counted(before, amount int64) int64 { return before + min(amount, maxCounted-before) }

// use notes a request. A pause is forgotten after four times its length of steady use.
func (h *hotKey) use(now Instant) {
	if h.used != 0 {
		gap := now.Sub(h.used)
		h.gap = max(gap, h.gap-gap/4)
	}
	h.used = now
}

// observeCold turns a cold key into a candidate once half of its floor is gone:
// early, to hide the round trips until the leader has made it hot.
func (r *Region) observeCold(k KeyID, u Usage, now Instant) bool {
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

// dropCandidate ends what a key asked for.
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

// RegionInfo is a region's state, to be shown.
type RegionInfo struct {
	Phase          Phase
	LeaseRemaining time.Duration
	SessionOpen    bool
	Epoch          uint64
	HotKeys        int
	Candidates     int
	StoreEpoch     string
	// Applying is how many keys the directive has whose shares are being applied, and
	// Applied how many of them the store has applied; both 0 if none is.
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
