package promise

import (
	"context"
	"time"

	"aliquot/internal/e2e"
)

// Scenario is one story with its promises. It leaves the cluster as it found it: all
// processes running, every region leased.
type Scenario struct {
	Name string
	Run  func(context.Context, *e2e.Cluster, Scale) ([]Result, error)
	// Long ones are left out of the tests: another one, or another package's test,
	// tells the same in less time.
	Long bool
	// Busy ones take all the processor time there is, and nothing else should run beside them.
	Busy bool
}

// Scale is how long and how large.
type Scale struct {
	// Run is the length of a run, Outage how long all coordinators are away, Watch
	// how long budgets are watched.
	Run, Outage, Watch time.Duration
	// Stall is how long a Redis does not answer.
	Stall time.Duration
	// Latencies are asked for as promised. They are of a machine with nothing else to do.
	Latencies bool
	// Clients of the scenarios with many.
	Clients int
	// Rounds of burst, pause, burst.
	Rounds int
	// ShareChanges is how many a watch must see at least.
	ShareChanges int
	// Slack is taken off the utilisations asked for: a short run weighs the first
	// moments more, in which the budgets find the demand, and a test may share its
	// two cores. The bounds have no slack.
	Slack float64
}

// Short fits a test; Full is what was promised.
func Short() Scale {
	return Scale{Run: 8 * time.Second, Outage: 13 * time.Second, Watch: 10 * time.Second, Stall: 3 * time.Second, Clients: 300, Rounds: 3, ShareChanges: 3, Slack: .1}
}

// Full is the length that the promises are made for.
func Full() Scale {
	return Scale{Run: 30 * time.Second, Outage: 60 * time.Second, Watch: 60 * time.Second, Stall: 10 * time.Second, Latencies: true, Clients: 2000, Rounds: 10, ShareChanges: 20}
}
