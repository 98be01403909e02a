package regional

import (
	"encoding/binary"
	"time"

	"aliquot/budget"
	"aliquot/limit"
	"aliquot/rules"
)

// appendRecent appends a request: its time, key, cost, namespace, attributes and costs.
func appendRecent(b []byte, after time.Duration, key uint64, r *request) []byte {
	b = binary.AppendUvarint(b, uint64(after))
	b = binary.BigEndian.AppendUint64(b, key)
	return appendRequest(b, r)
}

func appendRequest(b []byte, r *request) []byte {
	b = binary.AppendUvarint(b, uint64(r.cost/limit.Token))
	b = appendText(b, r.namespace)
	b = binary.AppendUvarint(b, uint64(len(r.attributes)))
	for i := range r.attributes {
		b = appendText(appendText(b, r.attributes[i].Name), r.attributes[i].Value)
	}
	b = binary.AppendUvarint(b, uint64(len(r.costs)))
	for i := range r.costs {
		b = binary.AppendUvarint(appendText(b, r.costs[i].Unit), uint64(r.costs[i].Cost))
	}
	descriptor := byte(0)
	if r.descriptor {
		descriptor = 1
	}
	return append(b, descriptor)
}

func appendText(b []byte, text string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(text))), text...)
}

// read reads the first request of a text that appendRecent wrote, and returns the rest of the text.
func (r *recentRequest) read(text string, first budget.Instant) (rest string) {
	after, text := readNumber(text)
	r.at = first.Add(time.Duration(after))
	r.key = binary.BigEndian.Uint64([]byte(text[:8]))
	return r.request.read(text[8:])
}

// read is the reverse of appendRequest. It reuses the slices of r.
func (r *request) read(text string) (rest string) {
	cost, text := readNumber(text)
	r.cost = limit.Tokens(cost) * limit.Token
	r.namespace, text = readText(text)
	r.attributes = r.attributes[:0]
	n, text := readNumber(text)
	for range n {
		var name, value string
		name, text = readText(text)
		value, text = readText(text)
		r.attributes = append(r.attributes, rules.Attribute{Name: name, Value: value})
	}
	r.costs = r.costs[:0]
	n, text = readNumber(text)
	for range n {
		var unit string
		unit, text = readText(text)
		cost, text = readNumber(text)
		r.costs = append(r.costs, rules.UnitCost{Unit: unit, Cost: int64(cost)})
	}
	r.descriptor = text[0] == 1
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
