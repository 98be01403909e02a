package promise

import (
	"context"
	"time"

	"aliquot/internal/e2e"
)

// Scenario is one sequence of load and faults, and its promises. It leaves the cluster as it found it: all processes run,
// and every region has a lease.
type Scenario struct {
	Name string
	Run  func(context.Context, *e2e.Cluster, Scale) ([]Result, error)
	// Long: the tests leave it out, because another scenario or another package's test shows the same in less time.
	Long bool
	// Busy: it uses the whole processor, so nothing else should run beside it.
	Busy bool
}

// Scale says how long scenarios run, and how much load and how many faults they have.
type Scale struct {
	// Run is the length of a run, Outage how long all coordinators are down, Watch how long budgets are watched.
	Run, Outage, Watch time.Duration
	// Stall is how long a Redis does not answer.
	Stall time.Duration
	// Latencies: latencies are promises too. They hold on a machine that does nothing else.
	Latencies bool
	// Clients is how many clients the scenarios of many clients have.
	Clients int
	// Rounds is how many bursts a client has, with a pause after each.
	Rounds int
	// ShareChanges is how many changes of shares a watch must see at least.
	ShareChanges int
	// Slack is subtracted from the utilisations that are promised: the first moments, in which the shares reach the
	// demand, weigh more in a short run, and a test may share its two cores. The bounds have no slack.
	Slack float64
}

// Short is the scale of the tests.
func Short() Scale {
	return Scale{Run: 8 * time.Second, Outage: 13 * time.Second, Watch: 10 * time.Second, Stall: 3 * time.Second, Clients: 300, Rounds: 3, ShareChanges: 3, Slack: .1}
}

// Full is the scale that the promises are made for.
func Full() Scale {
	return Scale{Run: 30 * time.Second, Outage: 60 * time.Second, Watch: 60 * time.Second, Stall: 10 * time.Second, Latencies: true, Clients: 2000, Rounds: 10, ShareChanges: 20}
}
