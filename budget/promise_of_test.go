package budget_test

import (
	"os"
	"testing"
	"time"

	"aliquot/budget"
	"aliquot/budget/promise"
)

func TestMain(m *testing.M) {
	budget.PromiseOf = func(limit budget.KeyLimit, windows bool, c *budget.Config, roundTrip, quorum time.Duration) budget.Promised {
		terms := promise.Terms{Limit: limit, Config: c, RoundTrip: roundTrip, Quorum: quorum}
		if windows {
			terms.Counts = promise.Windows
		}
		p := terms.Promise()
		return budget.Promised{
			ToHot: p.ToHot, ToFollow: p.ToFollow, CutOff: p.CutOff, FirstTouch: p.FirstTouch, Step: p.Step,
			SteadyRate: p.SteadyRate, SilentRate: p.SilentRate, KeptRate: p.KeptRate, FloorRate: p.FloorRate, CutOffBurst: p.CutOffBurst,
		}
	}
	os.Exit(m.Run())
}
