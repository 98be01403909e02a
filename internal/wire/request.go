package wire

import (
	"aliquot/rules"
)

// The tags of the fields that are read: number and type.
const (
	requestAttribute = 1<<3 | asPart
	requestCost      = 2<<3 | asNumber
	requestNamespace = 3<<3 | asPart
	requestUnitCost  = 4<<3 | asPart
	requestFields    = 4 // the last number

	entryName     = 1<<3 | asPart
	entryValue    = 2<<3 | asPart
	entryUnitCost = 2<<3 | asNumber

	batchRequest = 1<<3 | asPart
	batchFields  = 1
)

// Request is a CheckRequest. Its texts are bytes of the message it was read from: they
// hold as long as nobody writes to these. Of more attributes than rules.MaxAttributes, and of
// costs of more units than that, only one beyond is here: such a request is to be refused.
type Request struct {
	Attributes rules.Attributes
	Namespace  string
	// Cost is 1 where the message says none.
	Cost  int64
	Costs rules.Costs
	// Valid tells that the texts are known to be valid UTF-8, as those of a message are that
	// was read by Read.
	Valid bool
}

// Requests are those of one call. The zero value is ready for use, and one that is used
// again, after Reset, allocates nothing.
type Requests struct {
	// All are the requests that were read, in order. They hold until the next Reset.
	All        []Request
	attributes []rules.Attribute
	costs      []rules.UnitCost
}

// Reset forgets the requests, and the messages they were read from.
func (b *Requests) Reset() {
	clear(b.All)
	clear(b.attributes)
	clear(b.costs)
	b.All, b.attributes, b.costs = b.All[:0], b.attributes[:0], b.costs[:0]
}

// Room is about how many bytes are kept for the next use.
func (b *Requests) Room() int {
	return cap(b.All)*104 + cap(b.attributes)*32 + cap(b.costs)*24
}

// Read reads a CheckRequest, and adds it to All. False, and nothing added, where the
// generated code has to be asked.
func (b *Requests) Read(message []byte) bool { return b.read(scanner{data: message}) }

// ReadAmong is Read for one of several requests of a message, which the generated code
// would refuse whole for a text that is not UTF-8 in one of them: that one is added and is
// not Valid. Such a text is what one client sent, and is not to cost others their answers.
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

// ReadBatch calls each with every request of a CheckBatchRequest, as bytes, in order,
// until it returns false. It returns false if it did, or if the generated code has to be
// asked about the batch.
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

// setAttribute gives a name its value; the last one said counts. Of more attributes than a
// request may have one is kept, by which the request is refused: a few bytes would stand for
// an object each, and looking all of them through would take its time.
func (b *Requests) setAttribute(from int, name, value string) {
	own := b.attributes[from:]
	if len(own) > rules.MaxAttributes {
		return
	}
	for i := range own {
		if own[i].Name == name {
			own[i].Value = value
			return
		}
	}
	b.attributes = append(b.attributes, rules.Attribute{Name: name, Value: value})
}

// setCost is setAttribute for what is consumed of a unit.
func (b *Requests) setCost(from int, unit string, cost int64) {
	own := b.costs[from:]
	if len(own) > rules.MaxAttributes {
		return
	}
	for i := range own {
		if own[i].Unit == unit {
			own[i].Cost = cost
			return
		}
	}
	b.costs = append(b.costs, rules.UnitCost{Unit: unit, Cost: cost})
}

// attribute takes an entry of a map of texts. What it lacks is empty.
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
