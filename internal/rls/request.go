package rls

import (
	"errors"
	"fmt"
	"time"
	"unicode/utf8"

	"aliquot/rules"
)

// Limits of one request.
const (
	// maxDescriptors is what one batch of checks may have.
	maxDescriptors = 1000
	// maxEntries of a descriptor are as many attributes as a check may have, less the domain.
	maxEntries = 63
	// maxNameBytes and maxValueBytes are those of an attribute.
	maxNameBytes  = 64
	maxValueBytes = 4 << 10
	// maxCost is above every capacity, so what costs more is denied as this is.
	maxCost = 1_000_000_000_000
)

// DomainAttribute is the attribute that carries a request's domain.
const DomainAttribute = "domain"

// ErrInvalid is wrapped by the errors of a request that no check can be made of.
var ErrInvalid = errors.New("invalid request")

// Check is one descriptor of a request.
type Check struct {
	// Attributes are the domain and the descriptor's entries, in their order, each name
	// once: the first entry of a key counts, and none is the domain but the domain.
	Attributes rules.Attributes
	// Cost is what the descriptor costs, at least 1.
	Cost int64
	// Look: the descriptor is only to be looked at; nothing is charged.
	Look bool
	// Refund: the descriptor gives back what it cost, which is not done: it is looked at.
	Refund bool
	// Override: the descriptor brings a limit of its own: so many Requests in each Window. No window:
	// it names no unit that there is.
	Override bool
	Requests int64
	Window   time.Duration
}

// Request is a RateLimitRequest. The zero value is ready to Decode into, again and again:
// it keeps its memory. Not safe for concurrent use.
type Request struct {
	domain      string
	hits        uint32
	descriptors []descriptor
	described   int // descriptors of the message; of those beyond maxDescriptors none is kept
	entries     []entry
	checks      []Check
	attributes  rules.Attributes
	err         error
}

// descriptor is one as it came; its entries are those of the request up to a place, and of
// those beyond maxEntries none is kept.
type descriptor struct {
	entries            int
	said               int // entries of the message
	hits               uint64
	hitsSaid           bool
	negative, override bool
	own                own
}

type entry struct{ key, value string }

// Decode reads a message; what was read before is gone. Its strings are parts of data,
// which must not change while they are in use. The error is kept for Checks; it wraps
// ErrInvalid.
func (r *Request) Decode(data []byte) error {
	r.domain, r.hits, r.described = "", 0, 0
	r.descriptors, r.entries = r.descriptors[:0], r.entries[:0]
	r.checks, r.attributes = r.checks[:0], r.attributes[:0]
	if r.err = r.read(data); r.err == nil {
		r.err = r.check()
	}
	return r.err
}

// Checks are those of the latest Decode, in the order of the descriptors, or its error.
// They share the request's memory.
func (r *Request) Checks() ([]Check, error) { return r.checks, r.err }

// check makes checks of what was read. What a client can bring about with a value of its
// own is no error: a proxy lets a request pass where it gets none but an error.
func (r *Request) check() error {
	switch {
	case r.domain == "":
		return fmt.Errorf("%w: rate limit domain must not be empty", ErrInvalid)
	case len(r.descriptors) == 0:
		return fmt.Errorf("%w: rate limit descriptor list must not be empty", ErrInvalid)
	case max(r.described, len(r.descriptors)) > maxDescriptors:
		return fmt.Errorf("%w: %d descriptors; at most %d are allowed", ErrInvalid, max(r.described, len(r.descriptors)), maxDescriptors)
	}
	from := 0
	for i := range r.descriptors {
		d := &r.descriptors[i]
		entries := r.entries[from:d.entries]
		if said := max(d.said, len(entries)); said > maxEntries {
			return fmt.Errorf("%w: a descriptor of %d entries; at most %d are allowed", ErrInvalid, said, maxEntries)
		}
		from = d.entries
		cost, look := r.costOf(d)
		r.checks = append(r.checks, Check{
			Attributes: r.attributesOf(entries), Cost: cost, Look: look, Refund: d.negative, Override: d.override,
			Requests: int64(d.own.requests), Window: d.own.window(),
		})
	}
	return nil
}

// costOf is what a descriptor costs: what it says itself, else what the request says.
func (r *Request) costOf(d *descriptor) (cost int64, look bool) {
	hits := uint64(r.hits)
	if d.hitsSaid {
		hits = d.hits
	}
	look = d.negative || d.hitsSaid && hits == 0
	return int64(min(max(hits, 1), maxCost)), look
}

// attributesOf are the domain and entries. What no rule can name is left out, and of a
// value that is too long the beginning counts.
func (r *Request) attributesOf(entries []entry) rules.Attributes {
	from := len(r.attributes)
	r.attributes = append(r.attributes, rules.Attribute{Name: DomainAttribute, Value: cut(r.domain)})
	for i := range entries {
		e := &entries[i]
		if e.key == "" || len(e.key) > maxNameBytes || has(r.attributes[from:], e.key) {
			continue
		}
		r.attributes = append(r.attributes, rules.Attribute{Name: e.key, Value: cut(e.value)})
	}
	return r.attributes[from:len(r.attributes):len(r.attributes)]
}

func has(attributes rules.Attributes, name string) bool {
	for i := range attributes {
		if attributes[i].Name == name {
			return true
		}
	}
	return false
}

// cut is the beginning of a value that is too long, in whole characters.
func cut(value string) string {
	if len(value) <= maxValueBytes {
		return value
	}
	end := maxValueBytes
	for !utf8.RuneStart(value[end]) {
		end--
	}
	return value[:end]
}
