package sample

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"aliquot/budget"
	"aliquot/limit"
	"aliquot/regional/internal/charge"
	"aliquot/rules"
)

// recentClock is the boot clock of a test.
type recentClock struct{ at budget.Instant }

func (c *recentClock) now() budget.Instant { return c.at }

func askedBy(apiKey string) *charge.Request {
	return &charge.Request{
		Attributes: rules.AttributesOf(map[string]string{"api_key": apiKey, "ip": ""}), Namespace: "shop", Cost: 3 * limit.Token,
		Costs: rules.CostsOf(map[string]int64{"tokens_out": 1 << 40}),
	}
}

// seen counts the requests of a sample by API key.
func seen(s *Sample) (map[string]int, Part) {
	part, out := s.Take(), map[string]int{}
	part.Each(func(r *Request) bool {
		out[r.Attributes.Get("api_key")]++
		return true
	})
	return out, part
}

func TestARecentRequestComesBackAsItWas(t *testing.T) {
	c := &recentClock{at: budget.Instant(time.Hour)}
	s := New(c.now)
	want := askedBy("k")
	s.See(&charge.Decision{}, want)
	c.at += budget.Instant(time.Second)
	s.See(&charge.Decision{}, &charge.Request{Cost: limit.Token})
	n := 0
	part := s.Take()
	part.Each(func(r *Request) bool {
		if n++; n == 2 {
			if r.At != c.at || len(r.Attributes) != 0 || len(r.Costs) != 0 || r.Namespace != "" || r.Cost != limit.Token {
				t.Errorf("%+v", r)
			}
		} else if !slices.Equal(r.Attributes, want.Attributes) || !slices.Equal(r.Costs, want.Costs) || r.Namespace != "shop" ||
			r.Cost != want.Cost || r.At != budget.Instant(time.Hour) {
			t.Errorf("%+v", r)
		}
		return true
	})
	if n != 2 {
		t.Errorf("%d requests", n)
	}
}

// TestTheSampleThinsWithTraffic: at 20,000 requests a second of 1,000 keys it keeps to
// the part of the keys that makes it span a minute, all requests of each, and takes all
// keys again once it is quiet.
func TestTheSampleThinsWithTraffic(t *testing.T) {
	c := &recentClock{at: 1}
	s := New(c.now)
	const perSecond, keys = 20_000, 1000
	for i := range 100 * perSecond {
		c.at += budget.Instant(time.Second / perSecond)
		s.See(&charge.Decision{}, &charge.Request{Attributes: rules.AttributesOf(map[string]string{"api_key": fmt.Sprint(i % keys)}), Cost: limit.Token})
	}
	got, part := seen(s)
	if part.oneIn < 8 || part.oneIn > 64 || len(got) < keys/int(part.oneIn)/3 {
		t.Fatalf("1 in %d, %d keys", part.oneIn, len(got))
	}
	span := c.at.Sub(part.segments[0].first)
	bytes, total := 0, 0
	for _, at := range part.segments {
		bytes, total = bytes+cap(at.data), total+at.requests
	}
	if span < time.Minute || total > 65_536 || bytes > 32<<20 {
		t.Errorf("%v, %d requests, %d bytes", span, total, bytes)
	}
	for key, n := range got {
		if whole := int(span.Seconds() * perSecond / keys); n < whole-1 || n > whole+1 {
			t.Errorf("%d requests of key %s, the span has %d", n, key, whole)
		}
	}
	for range 3600 {
		c.at += budget.Instant(time.Second)
		s.Age()
		for key := range 4 {
			s.See(&charge.Decision{}, &charge.Request{Attributes: rules.AttributesOf(map[string]string{"api_key": fmt.Sprint(key)}), Cost: limit.Token})
		}
	}
	if got, part := seen(s); part.oneIn != 1 || len(got) != 4 || got["0"] < 500 || got["0"] > 601 {
		t.Errorf("1 in %d, %v: want ten minutes of all keys", part.oneIn, got)
	}
}

// TestLargeRequestsTakeNoMoreMemory: the largest that are valid, as fast as they come.
func TestLargeRequestsTakeNoMoreMemory(t *testing.T) {
	c := &recentClock{at: 1}
	s := New(c.now)
	r := &charge.Request{Cost: limit.Token}
	const maxAttributes, maxNameBytes, maxValueBytes = rules.MaxAttributes, 64, 4096 // of a request
	for i := range maxAttributes {
		r.Attributes = r.Attributes.Set(fmt.Sprintf("%0*d", maxNameBytes, i), strings.Repeat("x", maxValueBytes))
	}
	for i := range 500 {
		c.at += budget.Instant(time.Second) // slowly enough not to thin out
		r.Attributes = r.Attributes.Set("api_key", fmt.Sprint(i))
		s.See(&charge.Decision{}, r)
	}
	bytes := 0
	for _, at := range s.Take().segments {
		bytes += cap(at.data)
	}
	if bytes < 16<<20 || bytes > 32<<20 {
		t.Errorf("%d bytes", bytes)
	}
}

// TestTheSampleGoesByTheKeyThatWasAsked: requests of one key are together whatever else
// they say.
func TestTheSampleGoesByTheKeyThatWasAsked(t *testing.T) {
	s := New((&recentClock{at: 1}).now)
	all := &rules.Rule{ID: "all"}
	org := &rules.Rule{ID: "org", Key: []string{"org"}}
	d := &charge.Decision{Groups: []*charge.Transaction{{Charges: []charge.Charge{{Planned: charge.Planned{Rule: all}}, {Planned: charge.Planned{Rule: org, Key: budget.KeyID{Hash: [16]byte{7: 9}}}}}}}}
	if got := s.keyOf(d, askedBy("k")); got != 9 {
		t.Errorf("%d", got)
	}
	one, again := s.keyOf(&charge.Decision{}, askedBy("k")), s.keyOf(&charge.Decision{}, askedBy("k"))
	if one != again || one == s.keyOf(&charge.Decision{}, askedBy("l")) {
		t.Error("without one it goes by the API key")
	}
}

func TestTheSampleIsSafeForManyAtOnce(t *testing.T) {
	var now atomic.Int64
	s := New(func() budget.Instant { return budget.Instant(now.Add(int64(time.Millisecond))) })
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for i := range 3 * segmentRequests {
				s.See(&charge.Decision{}, askedBy(fmt.Sprint(i)))
				if i%1000 == 0 {
					seen(s)
				}
			}
		})
	}
	all.Wait()
	if got, _ := seen(s); len(got) == 0 {
		t.Error("nothing")
	}
}

// BenchmarkRecent is what the sample costs a check that is in it, and one that is not.
func BenchmarkRecent(b *testing.B) {
	for name, key := range map[string]byte{"kept": 0, "passed": 1} {
		b.Run(name, func(b *testing.B) {
			clock := &recentClock{at: 1}
			s := New(clock.now)
			r := &charge.Request{Attributes: rules.AttributesOf(map[string]string{"api_key": "sk_live_0123456789", "endpoint": "/v1/orders", "method": "POST"}), Cost: limit.Token}
			d := &charge.Decision{Groups: []*charge.Transaction{{Charges: []charge.Charge{{Planned: charge.Planned{Rule: &rules.Rule{Key: []string{"api_key"}}}}}}}}
			d.Groups[0].Charges[0].Key.Hash[7] = key
			b.ReportAllocs()
			for b.Loop() {
				clock.at += budget.Instant(time.Millisecond)
				s.mask.Store(maxOneIn - 1) // or it would follow the traffic
				s.See(d, r)
			}
		})
	}
}
