package fleet

import (
	"encoding/binary"
	"fmt"
	"time"

	"aliquot/budget"
)

// Size is what a fleet is made of.
type Size struct {
	Regions int
	// Keys are the hot ones: cold keys never reach a leader.
	Keys int
	// Users is how many regions use each key.
	Users int
}

const (
	// Tick is the pace of a coordinator's loop. A commit and a proof of leadership
	// are back one tick later, and so is a report after a directive.
	Tick = 20 * time.Millisecond
	// reportEvery spaces the reports of one busy key.
	reportEvery = time.Second
	// askEvery spaces the requests for a key to become hot.
	askEvery = 500 * time.Millisecond
	// maxKeys is what one report holds at most; the leader refuses more.
	maxKeys = 8192
	// Demand of a key's first user and of each other one, in thousandths of its
	// limit: together below the whole, so that a share can satisfy it.
	firstDemand, otherDemand = 600, 150

	lease  = 10 * time.Second
	rhoPPM = 20_000
	rule   = 1
)

// Limit is that of every key: 1,000 tokens, 100 a second.
var Limit = budget.KeyLimit{Capacity: 1000e6, Rate: 100e6}

// Fleet couples a leader with its regions. It is not safe for concurrent use.
type Fleet struct {
	Leader *budget.Leader
	// Ledger is a coordinator's own, apart from the leader's copy: every plan is
	// applied to it first.
	Ledger *budget.Ledger
	// Measure runs one step of the leader; kind names its event.
	Measure func(kind string, step func())
	// Planned sees every plan.
	Planned func(budget.Plan)
	// Idle: nobody uses any key.
	Idle bool

	size      Size
	now       budget.Instant
	regions   []region
	home      []uint8 // by key: its first user
	committed bool    // a commit, a proof is back with the next tick
	verified  bool
	moved     int // keys whose demand has moved, in turn
	left      map[int]bool
	// Reports and KeyReports count what the leader was told.
	Reports, KeyReports int
}

// New is a fleet without a leader, whose regions are at equal floors.
func New(size Size) *Fleet {
	names := make([]string, size.Regions)
	for i := range names {
		names[i] = fmt.Sprintf("region-%02d", i)
	}
	f := &Fleet{
		Ledger:  &budget.Ledger{Config: budget.NewConfig(names, lease, rhoPPM)},
		Measure: func(_ string, step func()) { step() },
		Planned: func(budget.Plan) {},
		size:    size, now: budget.Instant(time.Hour),
		regions: make([]region, size.Regions), home: make([]uint8, size.Keys), left: map[int]bool{},
	}
	for i := range f.regions {
		f.regions[i] = region{fleet: f, self: i, held: make([]held, size.Keys), incarnation: uint64(i) + 1}
	}
	for n := range f.home {
		f.home[n] = uint8(n % size.Regions)
	}
	return f
}

// Key is the n-th key: spread like a hash, and its number can be read from it.
func Key(n int) budget.KeyID {
	k := budget.KeyID{Rule: rule}
	x := uint64(n) + 0x9E3779B97F4A7C15
	x = (x ^ x>>30) * 0xBF58476D1CE4E5B9
	x = (x ^ x>>27) * 0x94D049BB133111EB
	binary.BigEndian.PutUint64(k.Hash[:], x^x>>31)
	binary.BigEndian.PutUint64(k.Hash[8:], uint64(n))
	return k
}

func number(k budget.KeyID) int { return int(binary.BigEndian.Uint64(k.Hash[8:])) }

// Elect puts a new leader in charge of the ledger.
func (f *Fleet) Elect() {
	f.Ledger.MintEpoch()
	ledger := f.Ledger.Clone()
	f.Measure("elect", func() { f.Leader = budget.NewLeader(ledger, f.now) })
	f.committed, f.verified = false, false
	for i := range f.regions {
		f.regions[i].close()
	}
}

// Cut keeps a region from the leader, or lets it back.
func (f *Fleet) Cut(i int, cut bool) {
	f.regions[i].cut = cut
	f.regions[i].close()
}

// Run lets time pass; each second the demand of churn keys moves to another region.
func (f *Fleet) Run(d time.Duration, churn int) {
	perSecond := int(time.Second / Tick)
	for n := range int(d / Tick) {
		for range (n+1)*churn/perSecond - n*churn/perSecond {
			f.move()
		}
		f.tick()
	}
}

// move gives the next key in turn another first user.
func (f *Fleet) move() {
	n := f.moved % f.size.Keys
	f.moved++
	f.home[n] = uint8((int(f.home[n]) + f.size.Users) % f.size.Regions)
}

func (f *Fleet) tick() {
	f.now = f.now.Add(Tick)
	if f.committed {
		f.committed = false
		f.step("committed", budget.Committed{})
	}
	if f.verified {
		f.verified = false
		f.step("verified", budget.Verified{})
	}
	for i := range f.regions {
		f.regions[i].speak()
	}
	f.step("tick", budget.Tick{})
}

// Leave has the first user of the n-th key stop using it.
func (f *Fleet) Leave(n int) { f.left[n] = true }

// Home is the n-th key's first user.
func (f *Fleet) Home(n int) int { return int(f.home[n]) }

// ChangeRules tells the leader that all rules are still in force.
func (f *Fleet) ChangeRules() {
	f.step("rules", budget.RulesChanged{Kept: func(uint32) bool { return true }})
}

func (f *Fleet) step(kind string, ev budget.LeaderEvent) {
	var effects []budget.LeaderEffect
	f.Measure(kind, func() { effects = f.Leader.Step(ev, f.now) })
	for _, effect := range effects {
		f.do(effect)
	}
}

func (f *Fleet) do(effect budget.LeaderEffect) {
	switch e := effect.(type) {
	case budget.Commit:
		if err := f.Ledger.Apply(e.Plan); err != nil {
			panic("fleet: the ledger refuses a plan: " + err.Error())
		}
		f.Planned(e.Plan)
		f.committed = true
	case budget.Verify:
		f.verified = true
	case budget.Welcome:
		f.regions[e.OK.Region].welcome(e.OK)
	case budget.Answer:
		f.regions[e.Directive.Region].answer(e.Directive)
	case budget.Refuse:
		f.regions[e.Region].close()
	}
}

// Settled reports whether every key is hot in every region, every share is
// acknowledged, and each first user has what it asks for.
func (f *Fleet) Settled() bool {
	if f.Ledger.Len() != f.size.Keys {
		return false
	}
	for i := range f.regions {
		r := &f.regions[i]
		if !r.cut && (!r.open || len(r.acks) > 0) {
			return false
		}
	}
	for n := range f.home {
		h := &f.regions[f.home[n]].held[n]
		if !h.hot || int64(h.share.Rate)*1000/budget.Unit < firstDemand {
			return false
		}
	}
	return true
}

// Settle runs until everything is settled, and reports whether it was within d.
func (f *Fleet) Settle(d time.Duration) bool {
	for end := f.now.Add(d); f.now < end; {
		f.Run(time.Second, 0)
		if f.Settled() {
			return true
		}
	}
	return false
}

// Live is how many regions the leader counts as live.
func (f *Fleet) Live() int {
	n := 0
	for i := range f.regions {
		if f.Leader.Region(i, f.now, 0).Live {
			n++
		}
	}
	return n
}
