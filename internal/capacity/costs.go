package capacity

import (
	"fmt"
	"strconv"
	"strings"
)

// Costs are what one of each takes. Start from Measured.
type Costs struct {
	// Call is the daemon's processor microseconds for a call of gRPC, Check those for each
	// check in it that is decided in memory, Limit those for each limit of it beyond the
	// first, and Store those for a check that goes to the store besides.
	Call  float64 `json:"call_us"`
	Check float64 `json:"check_us"`
	Limit float64 `json:"limit_us"`
	Store float64 `json:"store_us"`
	// RedisCall is Redis's processor microseconds for a script call, RedisLimit those for
	// each limit in it; GroupsPerCall is how many checks share a call under load.
	RedisCall     float64 `json:"redis_call_us"`
	RedisLimit    float64 `json:"redis_limit_us"`
	GroupsPerCall float64 `json:"groups_per_call"`
	RedisBytes    float64 `json:"redis_bytes_per_key"`
	// LeasedFrom is how many checks a second of one key make a daemon hold tokens of it,
	// and Renewals how often a second it then asks the store.
	LeasedFrom float64 `json:"leased_from_per_s"`
	Renewals   float64 `json:"renewals_per_s"`
	// ReportsPerRegion is how many keys a region reports a second at most.
	ReportsPerRegion float64 `json:"key_reports_per_region"`
	// Of a key that moves to another region: reports, plans, entries of the log.
	ReportsPerMove float64 `json:"key_reports_per_move"`
	PlansPerMove   float64 `json:"plans_per_move"`
	EntriesPerMove float64 `json:"entries_per_move"`
	// Report and Plan are the leader's processor microseconds for one key.
	Report float64 `json:"leader_report_us"`
	Plan   float64 `json:"leader_plan_us"`
	// LeaderBytes are those of a hot key on the leader's heap, LedgerBytes those in each
	// replicated ledger, EntryBytes those of an entry in the log.
	LeaderBytes float64 `json:"leader_bytes_per_hot_key"`
	LedgerBytes float64 `json:"ledger_bytes_per_hot_key"`
	EntryBytes  float64 `json:"log_bytes_per_entry"`
	// HotPerLedger is how many hot keys one group of coordinators carries.
	HotPerLedger float64 `json:"hot_keys_per_ledger"`
	// ReportBytes and ActionBytes are what crosses the ocean for a key's report and for a
	// key's new share.
	ReportBytes float64 `json:"report_bytes"`
	ActionBytes float64 `json:"action_bytes"`
}

// unit is one of the costs by its name on the command line, and what it may be: beyond that
// nothing is a cost of machines that there are.
type unit struct {
	name, meaning string
	of            *float64
	least, most   float64
}

func (c *Costs) units() []unit {
	microseconds := func(name, meaning string, of *float64) unit { return unit{name, meaning, of, 1e-3, 1e6} }
	size := func(name, meaning string, of *float64) unit { return unit{name, meaning, of, 1, 1e6} }
	perMove := func(name, meaning string, of *float64) unit { return unit{name, meaning, of, .01, 1e4} }
	return []unit{
		microseconds("call_us", "daemon, for a call of gRPC", &c.Call),
		microseconds("check_us", "daemon, for a check decided in memory", &c.Check),
		microseconds("limit_us", "daemon, for each further limit of a check", &c.Limit),
		microseconds("store_us", "daemon, for a check that goes to the store, besides", &c.Store),
		microseconds("redis_call_us", "Redis, for a script call", &c.RedisCall),
		microseconds("redis_limit_us", "Redis, for each limit in it", &c.RedisLimit),
		{"groups_per_call", "checks that share a call to Redis", &c.GroupsPerCall, 1, 1000},
		size("redis_bytes_per_key", "Redis, memory for a limit of a key", &c.RedisBytes),
		{"leased_from_per_s", "checks a second from which a daemon holds tokens of a key", &c.LeasedFrom, .1, 1e6},
		{"renewals_per_s", "how often it then asks the store", &c.Renewals, .1, 1e4},
		{"key_reports_per_region", "keys that a region reports a second at most", &c.ReportsPerRegion, 1, 1e9},
		perMove("key_reports_per_move", "reports of a key that moves", &c.ReportsPerMove),
		perMove("plans_per_move", "plans for it", &c.PlansPerMove),
		perMove("entries_per_move", "entries of the log for it", &c.EntriesPerMove),
		microseconds("leader_report_us", "leader, for a key's report", &c.Report),
		microseconds("leader_plan_us", "leader, for a key's plan", &c.Plan),
		size("leader_bytes_per_hot_key", "leader, heap", &c.LeaderBytes),
		size("ledger_bytes_per_hot_key", "every coordinator, heap", &c.LedgerBytes),
		size("log_bytes_per_entry", "log", &c.EntryBytes),
		{"hot_keys_per_ledger", "hot keys that one group of coordinators carries", &c.HotPerLedger, 1000, 1e9},
		size("report_bytes", "wire, for a key's report", &c.ReportBytes),
		size("action_bytes", "wire, for a key's new share", &c.ActionBytes),
	}
}

// Set overrides one cost by name=value. Its error says what would do.
func (c *Costs) Set(assignment string) error {
	name, text, assigned := strings.Cut(assignment, "=")
	if !assigned {
		return fmt.Errorf("%q: give name=value, as in check_us=0.6", assignment)
	}
	var names []string
	for _, u := range c.units() {
		if u.name != name {
			names = append(names, u.name)
			continue
		}
		value, err := strconv.ParseFloat(text, 64)
		if err != nil || !within(value, u.least, u.most) {
			return fmt.Errorf("%q: give %s a number from %v to %v", assignment, name, u.least, u.most)
		}
		*u.of = value
		return nil
	}
	return fmt.Errorf("%q: there is no such cost; one of %s", assignment, strings.Join(names, ", "))
}

// Each calls visit with every cost in a fixed order.
func (c *Costs) Each(visit func(name string, value float64, meaning string)) {
	for _, u := range c.units() {
		visit(u.name, *u.of, u.meaning)
	}
}
