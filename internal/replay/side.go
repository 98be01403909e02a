package replay

import (
	"aliquot/limit"
	"aliquot/rules"
)

// side is one version of the rules with the buckets of its keys.
type side struct {
	*Config
	set     *rules.Set
	old     *side // the old version; nil if this is the old version
	buckets map[bucketID]*bucket
	slots   uint64 // the number of the last slot
	last    verdict
	scratch scratch
}

func newSide(set *rules.Set, c *Config) *side {
	return &side{Config: c, set: set, buckets: map[bucketID]*bucket{}}
}

type bucketID struct {
	rule *rules.Rule
	hash [16]byte
}

// bucket is a key's record, its limit, and the view of that limit by which the record is charged.
type bucket struct {
	record limit.Record
	view   limit.View
	limit  limit.Limit
}

// verdict is the decision of one version of the rules about one request. Its slices are valid until
// the next decision.
type verdict struct {
	keys    []bucketKey
	denials []denial
}

// bucketKey is a limit that can deny, and the cost of the request by it.
type bucketKey struct {
	bucketID
	limit limit.Limit
	cost  limit.Tokens
}

// denial names the rule and the key by which a request is denied.
type denial struct {
	rule string
	hash [16]byte
}

func (v *verdict) allowed() bool { return len(v.denials) == 0 }

// scratch is memory that is used again for each request.
type scratch struct {
	matched []rules.Matched
	encoded []byte
	records []limit.Record
	views   []limit.View
	out     []limit.Outcome
}

// decide decides a request by one version of the rules, as the daemon does: by the lists first, and
// then by all limits that can deny, all or nothing. It leaves out shadow limits, which never deny.
func (s *side) decide(r *Request) verdict {
	v := verdict{keys: s.last.keys[:0], denials: s.last.denials[:0]}
	list, matched := s.set.Match(r.Attributes, s.NowMS, s.scratch.matched)
	s.scratch.matched = matched
	switch list {
	case rules.Blacklisted:
		s.scratch.encoded = rules.ListedValues(r.Attributes, s.scratch.encoded[:0])
		v.denials = append(v.denials, denial{BlockList, s.Hasher.Key(r.Namespace, s.scratch.encoded)})
	case rules.None:
		v = s.limits(r, matched, v)
	}
	s.last = v
	return v
}

// limits decides a request by its limits, and adds them to v.
func (s *side) limits(r *Request, matched []rules.Matched, v verdict) verdict {
	for i := range matched {
		m := &matched[i]
		whole, applies := m.Rule.Cost(r.Cost, r.Costs)
		if !applies || m.Unlimited || r.Descriptor && !m.Rule.Addresses(r.Attributes) {
			continue
		}
		s.scratch.encoded = rules.KeyValues(m.Rule, r.Attributes, s.scratch.encoded[:0])
		hash := s.Hasher.Key(r.Namespace, s.scratch.encoded)
		if m.Rule.Shadows(hash) {
			continue
		}
		k := bucketKey{bucketID: bucketID{m.Rule, hash}, limit: m.Limit, cost: limit.Tokens(whole) * limit.Token}
		v.keys = append(v.keys, k)
		if k.cost > m.Limit.Capacity {
			v.denials = append(v.denials, denial{m.Rule.ID, hash})
		}
	}
	if len(v.keys) == 0 || len(v.denials) > 0 {
		return v // a cost above a capacity is always denied, and nothing is charged
	}
	return s.take(r, v)
}

// take charges all limits of a request, or none of them.
func (s *side) take(r *Request, v verdict) verdict {
	w := &s.scratch
	w.records, w.views, w.out = w.records[:0], w.views[:0], w.out[:0]
	for i := range v.keys {
		b := s.bucket(&v.keys[i])
		b.view.Cost = v.keys[i].cost
		if b.limit.Algorithm == limit.Concurrency {
			s.slots++
			b.view.Slot = s.slots
		}
		w.records, w.views, w.out = append(w.records, b.record), append(w.views, b.view), append(w.out, limit.Outcome{})
	}
	allowed := limit.Take(w.records, w.views, 0, r.At, w.out)
	for i := range v.keys {
		k := &v.keys[i]
		s.buckets[k.bucketID].record = w.records[i]
		if !allowed && w.out[i].Tokens < k.cost {
			v.denials = append(v.denials, denial{k.rule.ID, k.hash})
		}
	}
	return v
}

// stamp marks the records of a replay. It may be any number but 0.
const stamp = 1

// bucket returns the bucket of a key. A new bucket is full. An override may give the same key
// another limit, and then the view changes.
func (s *side) bucket(k *bucketKey) *bucket {
	b := s.buckets[k.bucketID]
	if b != nil && b.limit == k.limit {
		return b
	}
	if b == nil {
		b = &bucket{}
		s.buckets[k.bucketID] = b
	}
	right := s.Right(Key{Rule: k.rule, Hash: k.hash, Like: s.like(k)}, k.limit)
	b.limit = k.limit
	b.view = limit.View{
		Algorithm: k.limit.Algorithm, Window: k.limit.Window.Microseconds(),
		Floor: right.Bucket, Extra: right.Extra, Phase: limit.Live, Until: limit.MaxExact, Stamp: stamp,
	}
	return b
}

// like returns the old version's rule that has the same key of the request, if the key's own rule is
// new, and nil otherwise.
func (s *side) like(k *bucketKey) *rules.Rule {
	if s.old == nil || s.old.set.Rule(k.rule.ID) != nil {
		return nil
	}
	for i := range s.old.last.keys {
		if before := &s.old.last.keys[i]; before.hash == k.hash {
			return before.rule
		}
	}
	return nil
}
