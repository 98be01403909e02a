package capacity

import (
	"fmt"
	"math"
)

// Need is what a load takes. What is of a region is the same in each.
type Need struct {
	Load  Load  `json:"load"`
	Costs Costs `json:"costs"`

	Regional    Regional    `json:"regional"`
	Redis       Redis       `json:"redis"`
	Coordinator Coordinator `json:"coordinator"`
	WAN         WAN         `json:"wan"`
}

// Regional is the daemons of a region.
type Regional struct {
	Checks float64 `json:"checks_per_s"`
	// PerGateway is what each gateway sends, in calls.
	PerGateway float64 `json:"calls_per_gateway_per_s"`
	Cores      float64 `json:"cores"` // busy
	Daemons    int     `json:"daemons"`
	// LeasedKeys are those that a daemon holds tokens of, InMemory the part of the checks
	// that it decides with them.
	LeasedKeys float64 `json:"leased_keys_per_daemon"`
	InMemory   float64 `json:"in_memory"`
}

// Redis is the store of a region.
type Redis struct {
	Calls         float64 `json:"calls_per_s"`
	CallsPerCheck float64 `json:"calls_per_check"`
	Cores         float64 `json:"cores"` // busy
	// ShardsNeeded at the wanted load, Shards as many as there are, Busy what each is.
	ShardsNeeded int     `json:"shards_needed"`
	Shards       float64 `json:"shards"`
	Busy         float64 `json:"busy"`
	Keys         float64 `json:"keys"`
	Bytes        float64 `json:"bytes"`
	ShardBytes   float64 `json:"bytes_per_shard"`
}

// Coordinator is the coordinators of all regions together.
type Coordinator struct {
	HotKeys float64 `json:"hot_keys"`
	// Ledgers is among how many groups they are divided; what follows is of all of them.
	Ledgers    int     `json:"ledgers"`
	Moves      float64 `json:"moves_per_s"`
	KeyReports float64 `json:"key_reports_per_s"`
	Plans      float64 `json:"plans_per_s"`
	Entries    float64 `json:"log_entries_per_s"`
	Cores      float64 `json:"leader_cores"`
	Heap       float64 `json:"leader_heap_bytes"`
	Log        float64 `json:"log_bytes_per_s"`
}

// WAN is what crosses it, between one region and the leaders.
type WAN struct {
	Up   float64 `json:"up_bytes_per_s"`
	Down float64 `json:"down_bytes_per_s"`
	All  float64 `json:"all_bytes_per_s"` // of all regions, both ways
}

const (
	second = 1e6 // microseconds
	// rounds suffice for the number of daemons to settle, which decides how busy a key is
	// at each, which decides what the daemons do.
	rounds = 50
)

// Estimate is what a valid load needs at these costs.
func Estimate(l Load, c Costs) Need {
	n := Need{Load: l, Costs: c}
	n.region()
	n.ledger()
	return n
}

// mostOf is where counting servers ends: nobody has so many, and a number of them beyond
// what an int holds would come out as few.
const mostOf = 1_000_000_000

// servers is how many it takes for so much of one, at least one.
func servers(f float64) int { return int(math.Min(math.Max(1, math.Ceil(f)), mostOf)) }

// Validate refuses a result that is beyond all counting, and names the flags it comes of.
func (n *Need) Validate() error {
	for _, of := range []struct {
		what  string
		count int
		flags string
	}{
		{"daemons a region", n.Regional.Daemons, "--checks, --limits and the --cost of the daemon"},
		{"Redis servers a region", n.Redis.ShardsNeeded, "--checks, --limits and the --cost of Redis"},
		{"groups of coordinators", n.Coordinator.Ledgers, "--keys, --hot and --cost hot_keys_per_ledger"},
	} {
		if of.count >= mostOf {
			return fmt.Errorf("this takes %d %s or more, which no installation has: check %s", mostOf, of.what, of.flags)
		}
	}
	return nil
}

// region estimates the daemons and the store of one region.
func (n *Need) region() {
	l, c, r := &n.Load, &n.Costs, &n.Regional
	r.Checks = l.Checks / float64(l.Regions)
	r.PerGateway = l.Checks / float64(l.Gateways) / l.PerCall
	keys := math.Max(1, l.Keys*l.Users/float64(l.Regions))
	r.Daemons = 1
	var groups float64 // that go to the store, a second
	for range rounds {
		each := r.Checks / float64(r.Daemons)
		r.LeasedKeys, r.InMemory = busyKeys(keys, l.Zipf, each, c.LeasedFrom)
		groups = r.Checks*(1-r.InMemory) + float64(r.Daemons)*r.LeasedKeys*c.Renewals
		r.Cores = (r.Checks*(c.Call/l.PerCall+c.Check+(l.Limits-1)*c.Limit) + groups*c.Store) / second
		daemons := servers(r.Cores / (float64(l.Cores) * l.Busy))
		if daemons <= r.Daemons { // more would do as well, and ask the store more often
			break
		}
		r.Daemons = daemons
	}
	n.store(groups, keys)
}

func (n *Need) store(groups, keys float64) {
	l, c, s := &n.Load, &n.Costs, &n.Redis
	s.Calls = groups / c.GroupsPerCall
	s.CallsPerCheck = s.Calls / n.Regional.Checks
	s.Cores = (s.Calls*c.RedisCall + groups*l.Limits*c.RedisLimit) / second
	s.ShardsNeeded = servers(s.Cores / l.Busy)
	s.Shards = float64(l.Shards) / float64(l.Regions)
	s.Busy = s.Cores / s.Shards
	s.Keys = keys * l.Limits
	s.Bytes = s.Keys * c.RedisBytes
	s.ShardBytes = s.Bytes / s.Shards
}

// ledger estimates the coordinators and what the regions tell them. None of it depends on
// how many checks there are.
func (n *Need) ledger() {
	l, c, k := &n.Load, &n.Costs, &n.Coordinator
	regions := float64(l.Regions)
	k.HotKeys = l.Keys * l.HotShare
	k.Ledgers = servers(k.HotKeys / c.HotPerLedger)
	k.Moves = k.HotKeys * l.MovesShare
	// A region reports each of its hot keys, once a second or as often as it may.
	each := math.Min(k.HotKeys*l.Users/regions, c.ReportsPerRegion*float64(k.Ledgers))
	k.KeyReports = each*regions + k.Moves*c.ReportsPerMove
	k.Plans, k.Entries = k.Moves*c.PlansPerMove, k.Moves*c.EntriesPerMove
	k.Cores = (k.KeyReports*c.Report + k.Plans*c.Plan) / second
	k.Heap = k.HotKeys * (c.LeaderBytes + c.LedgerBytes)
	k.Log = k.Entries * c.EntryBytes
	n.WAN.Up = k.KeyReports / regions * c.ReportBytes
	n.WAN.Down = k.Plans / regions * c.ActionBytes
	n.WAN.All = (n.WAN.Up + n.WAN.Down) * regions
}
