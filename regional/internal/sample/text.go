package sample

import (
	"encoding/binary"
	"time"

	"aliquot/budget"
	"aliquot/limit"
	"aliquot/regional/internal/charge"
	"aliquot/rules"
)

// appendRecent appends a request: its time, key, cost, namespace, attributes and costs.
func appendRecent(b []byte, after time.Duration, key uint64, r *charge.Request) []byte {
	b = binary.AppendUvarint(b, uint64(after))
	b = binary.BigEndian.AppendUint64(b, key)
	return AppendRequest(b, r)
}

func AppendRequest(b []byte, r *charge.Request) []byte {
	b = binary.AppendUvarint(b, uint64(r.Cost/limit.Token))
	b = appendText(b, r.Namespace)
	b = binary.AppendUvarint(b, uint64(len(r.Attributes)))
	for i := range r.Attributes {
		b = appendText(appendText(b, r.Attributes[i].Name), r.Attributes[i].Value)
	}
	b = binary.AppendUvarint(b, uint64(len(r.Costs)))
	for i := range r.Costs {
		b = binary.AppendUvarint(appendText(b, r.Costs[i].Unit), uint64(r.Costs[i].Cost))
	}
	descriptor := byte(0)
	if r.Descriptor {
		descriptor = 1
	}
	return append(b, descriptor)
}

func appendText(b []byte, text string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(text))), text...)
}

// read reads the first request of a text that appendRecent wrote, and returns the rest of the text.
func (r *Request) read(text string, first budget.Instant) (rest string) {
	after, text := readNumber(text)
	r.At = first.Add(time.Duration(after))
	r.key = binary.BigEndian.Uint64([]byte(text[:8]))
	return ReadRequest(&r.Request, text[8:])
}

// ReadRequest is the reverse of appendRequest. It reuses the slices of r.
func ReadRequest(r *charge.Request, text string) (rest string) {
	cost, text := readNumber(text)
	r.Cost = limit.Tokens(cost) * limit.Token
	r.Namespace, text = readText(text)
	r.Attributes = r.Attributes[:0]
	n, text := readNumber(text)
	for range n {
		var name, value string
		name, text = readText(text)
		value, text = readText(text)
		r.Attributes = append(r.Attributes, rules.Attribute{Name: name, Value: value})
	}
	r.Costs = r.Costs[:0]
	n, text = readNumber(text)
	for range n {
		var unit string
		unit, text = readText(text)
		cost, text = readNumber(text)
		r.Costs = append(r.Costs, rules.UnitCost{Unit: unit, Cost: int64(cost)})
	}
	r.Descriptor = text[0] == 1
	return text[1:]
}

func readText(text string) (out, rest string) {
	n, text := readNumber(text)
	return text[:n], text[n:]
}

func readNumber(text string) (n uint64, rest string) {
	n, size := binary.Uvarint([]byte(text[:min(len(text), binary.MaxVarintLen64)]))
	return n, text[size:]
}
