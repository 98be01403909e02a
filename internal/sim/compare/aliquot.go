package compare

import (
	"time"

	"aliquot/internal/sim"
	"aliquot/internal/sim/site"
	"aliquot/limit"
)

// aliquot is the code that ships: budget.Leader, budget.Region and the store's
// arithmetic, as package sim runs them.
type aliquot struct{ w *sim.Driven }

func newAliquot(w *sim.Driven, _ *Workload) limiter { return aliquot{w} }

func (a aliquot) ask(region, key, n int, answer func(site.Decided)) {
	a.w.Ask(region, key, n, limit.Token, answer)
}

func (a aliquot) moves() int64                         { return a.w.Moves() }
func (a aliquot) cut(region int, length time.Duration) { a.w.Cut(region, length) }
func (a aliquot) killLeader(length time.Duration)      { a.w.KillLeader(length) }
func (a aliquot) flush(region int)                     { a.w.Flush(region) }
