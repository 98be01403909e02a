package envoyrls

import (
	"errors"
	"fmt"
	"time"
	"unicode/utf8"

	"aliquot/rules"
)

// Limits of one request.
const (
	// maxDescriptors is the largest number of checks in one batch.
	maxDescriptors = 1000
	// maxEntries is the largest number of entries of a descriptor: the attributes of a check
	// without the domain.
	maxEntries = 63
	// maxNameBytes and maxValueBytes are the limits of an attribute.
	maxNameBytes  = 64
	maxValueBytes = 4 << 10
	// maxCost is above every capacity. A larger cost is cut to it and is denied in the same way.
	maxCost = 1_000_000_000_000
)

// DomainAttribute is the attribute that carries a request's domain.
const DomainAttribute = "domain"

// ErrInvalid is wrapped by the errors of a request that cannot be converted to checks.
var ErrInvalid = errors.New("invalid request")

// Check is one descriptor of a request.
type Check struct {
	// Attributes are the domain and the descriptor's entries, in their order, each name once. Of
	// entries with the same key the first counts. An entry cannot replace the domain.
	Attributes rules.Attributes
	// Cost is the cost of the descriptor, at least 1.
	Cost int64
	// Look: the descriptor is only looked at; nothing is charged.
	Look bool
	// Refund: the descriptor asks to give its cost back. That is not supported, so it is only
	// looked at.
	Refund bool
	// Override: the descriptor brings a limit of its own, which allows Requests in each Window.
	// Window is 0 if the descriptor names an unknown unit.
	Override bool
	Requests int64
	Window   time.Duration
}

// Request is a RateLimitRequest. The zero value is ready for Decode, also repeatedly: it reuses its
// memory. Not safe for concurrent use.
type Request struct {
	domain      string
	hits        uint32
	descriptors []descriptor
	described   int // number of descriptors in the message; those beyond maxDescriptors are not stored
	entries     []entry
	checks      []Check
	attributes  rules.Attributes
	err         error
}

// descriptor is one descriptor before it becomes a check. Its entries are those of the request up
// to the index entries. Entries beyond maxEntries are not stored.
type descriptor struct {
	entries            int
	total              int // number of entries in the message
	hits               uint64
	hitsSet            bool
	negative, override bool
	own                own
}

type entry struct{ key, value string }

// Decode decodes a message and replaces the previous one. The strings share the memory of data,
// which must not change while they are in use. The error wraps ErrInvalid; Checks returns it too.
func (r *Request) Decode(data []byte) error {
	r.domain, r.hits, r.described = "", 0, 0
	r.descriptors, r.entries = r.descriptors[:0], r.entries[:0]
	r.checks, r.attributes = r.checks[:0], r.attributes[:0]
	if r.err = r.read(data); r.err == nil {
		r.err = r.check()
	}
	return r.err
}

// Checks returns the checks of the latest Decode, in the order of the descriptors, or its error.
// They share the request's memory.
func (r *Request) Checks() ([]Check, error) { return r.checks, r.err }

// check converts the decoded request to checks. A value that a client can choose causes no error,
// because a proxy lets a request pass if it gets only an error.
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
		if all := max(d.total, len(entries)); all > maxEntries {
			return fmt.Errorf("%w: a descriptor of %d entries; at most %d are allowed", ErrInvalid, all, maxEntries)
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

// costOf returns the cost of a descriptor: its own cost, or else the cost of the request.
func (r *Request) costOf(d *descriptor) (cost int64, look bool) {
	hits := uint64(r.hits)
	if d.hitsSet {
		hits = d.hits
	}
	look = d.negative || d.hitsSet && hits == 0
	return int64(min(max(hits, 1), maxCost)), look
}

// attributesOf returns the domain and the entries as attributes. It leaves out names that no rule
// can have, and cuts values that are too long.
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

// cut returns the beginning of a value that is too long, in whole characters.
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
