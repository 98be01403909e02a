package capacity

// Measured are the costs as tools/goals measures them (`-only units`, docs/benchmarks/README.md); those of the
// leader are explained in docs/explanation/sharding.md, LeasedFrom and Renewals follow from the life of what a
// daemon holds (package prefetch), HotPerLedger and ReportsPerRegion are settings.
func Measured() Costs {
	return Costs{
		Call: 13.4, Check: .57, Limit: .44, Store: 5.7,
		RedisCall: 34, RedisLimit: 5.6, GroupsPerCall: 64, RedisBytes: 149,
		LeasedFrom: 20, Renewals: 15,
		ReportsPerRegion: 20_000, ReportsPerMove: 30, PlansPerMove: 22, EntriesPerMove: 13,
		Report: .75, Plan: 2, LeaderBytes: 3_114, LedgerBytes: 153, EntryBytes: 72, HotPerLedger: 150_000,
		ReportBytes: 100, ActionBytes: 60,
	}
}
