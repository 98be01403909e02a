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

// unit is one of the costs by its name on the command line.
type unit struct {
	name, meaning string
	of            *float64
}

func (c *Costs) units() []unit {
	return []unit{
		{"call_us", "daemon, for a call of gRPC", &c.Call},
		{"check_us", "daemon, for a check decided in memory", &c.Check},
		{"limit_us", "daemon, for each further limit of a check", &c.Limit},
		{"store_us", "daemon, for a check that goes to the store, besides", &c.Store},
		{"redis_call_us", "Redis, for a script call", &c.RedisCall},
		{"redis_limit_us", "Redis, for each limit in it", &c.RedisLimit},
		{"groups_per_call", "checks that share a call to Redis", &c.GroupsPerCall},
		{"redis_bytes_per_key", "Redis, memory for a limit of a key", &c.RedisBytes},
		{"leased_from_per_s", "checks a second from which a daemon holds tokens of a key", &c.LeasedFrom},
		{"renewals_per_s", "how often it then asks the store", &c.Renewals},
		{"key_reports_per_region", "keys that a region reports a second at most", &c.ReportsPerRegion},
		{"key_reports_per_move", "reports of a key that moves", &c.ReportsPerMove},
		{"plans_per_move", "plans for it", &c.PlansPerMove},
		{"entries_per_move", "entries of the log for it", &c.EntriesPerMove},
		{"leader_report_us", "leader, for a key's report", &c.Report},
		{"leader_plan_us", "leader, for a key's plan", &c.Plan},
		{"leader_bytes_per_hot_key", "leader, heap", &c.LeaderBytes},
		{"ledger_bytes_per_hot_key", "every coordinator, heap", &c.LedgerBytes},
		{"log_bytes_per_entry", "log", &c.EntryBytes},
		{"hot_keys_per_ledger", "hot keys that one group of coordinators carries", &c.HotPerLedger},
		{"report_bytes", "wire, for a key's report", &c.ReportBytes},
		{"action_bytes", "wire, for a key's new share", &c.ActionBytes},
	}
}

// Set overrides one cost by name=value.
func (c *Costs) Set(assignment string) error {
	name, text, _ := strings.Cut(assignment, "=")
	value, err := strconv.ParseFloat(text, 64)
	if err != nil || !(value > 0) || value > 1e12 {
		return fmt.Errorf("%q: give name=value with a positive number", assignment)
	}
	var names []string
	for _, u := range c.units() {
		if u.name == name {
			*u.of = value
			return nil
		}
		names = append(names, u.name)
	}
	return fmt.Errorf("%q: there is no such cost; one of %s", name, strings.Join(names, ", "))
}

// Each calls visit with every cost in a fixed order.
func (c *Costs) Each(visit func(name string, value float64, meaning string)) {
	for _, u := range c.units() {
		visit(u.name, *u.of, u.meaning)
	}
}
