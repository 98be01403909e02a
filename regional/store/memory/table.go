package memory

import "aliquot/limit"

// table is a set of records that do not fit into a coldRecord. It drops an expired record when a
// get or a sweep meets it, and counts the entries of its records.
type table[K comparable] struct {
	records map[K]kept
	peak    int  // the largest size since the map was made
	entries *int // of the shard
}

// kept is a record with the time at which it may be forgotten, in microseconds; 0: never.
type kept struct {
	limit.Record
	expires int64
}

func (t *table[K]) init(entries *int) { t.records, t.entries = map[K]kept{}, entries }

func (t *table[K]) get(k K, now int64) (limit.Record, bool) {
	if len(t.records) == 0 { // as most tables are, and a record is large
		return limit.Record{}, false
	}
	r, ok := t.records[k]
	if ok && r.expired(now) {
		t.drop(k)
		return limit.Record{}, false
	}
	return r.Record, ok
}

func (t *table[K]) put(k K, r limit.Record, expires int64) {
	*t.entries += entriesOf(r) - entriesOf(t.records[k].Record)
	t.records[k] = kept{Record: r, expires: expires}
	t.peak = max(t.peak, len(t.records))
}

func (t *table[K]) drop(k K) {
	if r, ok := t.records[k]; ok {
		*t.entries -= entriesOf(r.Record)
		delete(t.records, k)
	}
}

// sweep looks at n records from a random place, drops the expired ones and returns how many it
// dropped.
func (t *table[K]) sweep(n int, now int64) (dropped int) {
	for k, r := range t.records {
		if r.expired(now) {
			t.drop(k)
			dropped++
		}
		if n--; n == 0 {
			break
		}
	}
	if t.peak >= shrinkAt && len(t.records) < t.peak/8 {
		smaller := make(map[K]kept, len(t.records))
		for k, r := range t.records {
			smaller[k] = r
		}
		t.records, t.peak = smaller, len(smaller)
	}
	return dropped
}

func (r *kept) expired(now int64) bool { return r.expires != 0 && now >= r.expires }

// entriesOf returns how many admissions a record remembers one by one.
func entriesOf(r limit.Record) int {
	if r.Use == nil {
		return 0
	}
	return len(r.Use.Entries)
}
