package checkwire

import (
	"aliquot/rules"
)

// Tags of the fields that are decoded: number and type.
const (
	requestAttribute = 1<<3 | asPart
	requestCost      = 2<<3 | asNumber
	requestNamespace = 3<<3 | asPart
	requestUnitCost  = 4<<3 | asPart
	requestFields    = 4 // the largest number

	entryName     = 1<<3 | asPart
	entryValue    = 2<<3 | asPart
	entryUnitCost = 2<<3 | asNumber

	batchRequest = 1<<3 | asPart
	batchFields  = 1
)

// Request is a CheckRequest. Its texts share the memory of the message that it was decoded from:
// they are valid as long as the message does not change. If there are more attributes than
// rules.MaxAttributes, or costs of more units than that, only one beyond that number is kept, for
// which the request has to be refused.
type Request struct {
	Attributes rules.Attributes
	Namespace  string
	// Cost is 1 if the message has none.
	Cost  int64
	Costs rules.Costs
	// Valid: the texts are known to be valid UTF-8, as after Read.
	Valid bool
}

// Requests are the requests of one call. The zero value is ready for use. After Reset it can be
// used again, and then allocates nothing.
type Requests struct {
	// All are the decoded requests, in order. They are valid until the next Reset.
	All        []Request
	attributes []rules.Attribute
	costs      []rules.UnitCost
}

// Reset drops the requests and the references to their messages.
func (b *Requests) Reset() {
	clear(b.All)
	clear(b.attributes)
	clear(b.costs)
	b.All, b.attributes, b.costs = b.All[:0], b.attributes[:0], b.costs[:0]
}

// Room returns roughly how many bytes are kept for the next use.
func (b *Requests) Room() int {
	return cap(b.All)*104 + cap(b.attributes)*32 + cap(b.costs)*24
}

// Read decodes a CheckRequest and appends it to All. It returns false and appends nothing if the
// generated code has to decode the message.
func (b *Requests) Read(message []byte) bool { return b.read(scanner{data: message}) }

// ReadAmong is Read for one of several requests of a message. If one of them has a text that is not
// UTF-8, the generated code would refuse the whole message. ReadAmong appends that request without
// Valid, because the text comes from one client and must not cost the others their answers.
func (b *Requests) ReadAmong(message []byte) bool {
	return b.read(scanner{data: message, lenient: true})
}

func (b *Requests) read(s scanner) bool {
	r := Request{Cost: 1}
	attributes, costs := len(b.attributes), len(b.costs)
	for s.more() {
		switch s.tag() {
		case requestAttribute:
			s.drop()
			name, value := attribute(&s)
			b.setAttribute(attributes, name, value)
		case requestCost:
			s.drop()
			r.Cost = int64(s.number())
		case requestNamespace:
			s.drop()
			r.Namespace = s.text()
		case requestUnitCost:
			s.drop()
			unit, cost := unitCost(&s)
			b.setCost(costs, unit, cost)
		default:
			s.skip(requestFields)
		}
	}
	if s.odd {
		b.attributes, b.costs = b.attributes[:attributes], b.costs[:costs]
		return false
	}
	r.Valid = !s.unclean
	r.Attributes = b.attributes[attributes:len(b.attributes):len(b.attributes)]
	r.Costs = b.costs[costs:len(b.costs):len(b.costs)]
	b.All = append(b.All, r)
	return true
}

// ReadBatch calls each with the bytes of every request of a CheckBatchRequest, in order, until each
// returns false. It returns false if each did, or if the generated code has to decode the message.
func ReadBatch(message []byte, each func(request []byte) bool) bool {
	s := scanner{data: message}
	for s.more() {
		if s.tag() != batchRequest {
			s.skip(batchFields)
			continue
		}
		s.drop()
		if one := s.bytes(); s.odd || !each(one) {
			return false
		}
	}
	return !s.odd
}

// setAttribute sets the value of a name. The last value counts. It keeps one attribute more than a
// request may have, for which the request is refused. Further ones are dropped: each would become
// an object for a few bytes, and a search through all of them would take long.
func (b *Requests) setAttribute(from int, name, value string) {
	if own := rules.Attributes(b.attributes[from:]); len(own) <= rules.MaxAttributes {
		b.attributes = append(b.attributes[:from], own.Set(name, value)...)
	}
}

// setCost sets what is consumed of a unit, with the same limit as setAttribute.
func (b *Requests) setCost(from int, unit string, cost int64) {
	if own := rules.Costs(b.costs[from:]); len(own) <= rules.MaxAttributes {
		b.costs = append(b.costs[:from], own.Set(unit, cost)...)
	}
}

// attribute decodes an entry of a map of texts. A missing name or value is empty.
func attribute(s *scanner) (name, value string) {
	entry := s.part()
	if name, value, is := entry.pair(); is {
		return name, value
	}
	for entry.more() {
		switch entry.tag() {
		case entryName:
			entry.drop()
			name = entry.text()
		case entryValue:
			entry.drop()
			value = entry.text()
		default:
			entry.odd = true
		}
	}
	s.odd, s.unclean = entry.odd, entry.unclean
	return name, value
}

func unitCost(s *scanner) (unit string, cost int64) {
	entry := s.part()
	for entry.more() {
		switch entry.tag() {
		case entryName:
			entry.drop()
			unit = entry.text()
		case entryUnitCost:
			entry.drop()
			cost = int64(entry.number())
		default:
			entry.odd = true
		}
	}
	s.odd, s.unclean = entry.odd, entry.unclean
	return unit, cost
}
