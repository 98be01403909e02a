package envoyrls

import (
	"fmt"
	"strings"
	"unicode/utf8"
	"unsafe"

	"google.golang.org/protobuf/encoding/protowire"
)

// Numbers of the fields that are read.
const (
	requestDomain      = 1
	requestDescriptors = 2
	requestHits        = 3

	descriptorEntries  = 1
	descriptorLimit    = 2
	descriptorHits     = 3
	descriptorNegative = 4

	entryKey   = 1
	entryValue = 2

	overrideRequests   = 1
	overrideUnit       = 2
	overrideMultiplier = 3

	wrappedValue = 1
)

var errMalformed = fmt.Errorf("%w: the message cannot be read", ErrInvalid)

// field is one field of an encoded message. A field with an unexpected number or wire type is
// unknown and is skipped, as in generated code.
type field struct {
	number   protowire.Number
	kind     protowire.Type
	number64 uint64 // of a varint
	bytes    []byte // of a length-delimited field
}

// next splits the first field off b.
func next(b []byte) (f field, rest []byte, err error) {
	// Almost every tag and length of a request is one byte.
	var tag uint64
	n := 1
	if b[0] < 0x80 {
		tag = uint64(b[0])
	} else if tag, n = protowire.ConsumeVarint(b); n < 0 {
		return f, nil, errMalformed
	}
	b = b[n:]
	if tag>>3 < uint64(protowire.MinValidNumber) || tag>>3 > uint64(protowire.MaxValidNumber) {
		return f, nil, errMalformed
	}
	f.number, f.kind = protowire.Number(tag>>3), protowire.Type(tag&7)
	switch f.kind {
	case protowire.BytesType:
		f.bytes, n = protowire.ConsumeBytes(b)
	case protowire.VarintType:
		f.number64, n = protowire.ConsumeVarint(b)
	default:
		n = protowire.ConsumeFieldValue(f.number, f.kind, b)
	}
	if n < 0 {
		return f, nil, errMalformed
	}
	return f, b[n:], nil
}

// text returns a string field, which shares the message's memory. Bytes that are not UTF-8 are
// replaced: Envoy forwards a client's bytes unchanged, and a proxy that gets an error lets the
// request pass. So such a byte in a header would free its sender from all limits.
func (f *field) text() string {
	text := unsafe.String(unsafe.SliceData(f.bytes), len(f.bytes))
	if utf8.ValidString(text) {
		return text
	}
	return strings.ToValidUTF8(text, string(utf8.RuneError))
}

// is reports whether the field has this number and wire type.
func (f *field) is(number protowire.Number, kind protowire.Type) bool {
	return f.number == number && f.kind == kind
}

// read decodes a RateLimitRequest.
func (r *Request) read(b []byte) (err error) {
	var f field
	for len(b) > 0 {
		if f, b, err = next(b); err != nil {
			return err
		}
		switch {
		case f.is(requestDomain, protowire.BytesType):
			r.domain = f.text()
		case f.is(requestDescriptors, protowire.BytesType):
			err = r.readDescriptor(f.bytes)
		case f.is(requestHits, protowire.VarintType):
			r.hits = uint32(f.number64)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (r *Request) readDescriptor(b []byte) (err error) {
	var d descriptor
	var f field
	for len(b) > 0 {
		if f, b, err = next(b); err != nil {
			return err
		}
		switch {
		case f.is(descriptorEntries, protowire.BytesType):
			d.total++
			err = r.readEntry(f.bytes, d.total <= maxEntries && r.described < maxDescriptors)
		case f.is(descriptorLimit, protowire.BytesType):
			d.override = true
			err = d.own.read(f.bytes)
		case f.is(descriptorHits, protowire.BytesType):
			d.hitsSet = true
			err = readWrapped(f.bytes, &d.hits)
		case f.is(descriptorNegative, protowire.VarintType):
			d.negative = f.number64 != 0
		}
		if err != nil {
			return err
		}
	}
	if r.described++; r.described > maxDescriptors {
		return nil // further ones are only counted: a few bytes would become an object each
	}
	d.entries = len(r.entries)
	r.descriptors = append(r.descriptors, d)
	return nil
}

// readEntry decodes an entry, and stores it if keep is set.
func (r *Request) readEntry(b []byte, keep bool) (err error) {
	var e entry
	var f field
	for len(b) > 0 {
		if f, b, err = next(b); err != nil {
			return err
		}
		switch {
		case f.is(entryKey, protowire.BytesType):
			e.key = f.text()
		case f.is(entryValue, protowire.BytesType):
			e.value = f.text()
		}
	}
	if keep {
		r.entries = append(r.entries, e)
	}
	return nil
}

// own is the limit that a descriptor brings, in its encoded values.
type own struct{ requests, unit, multiplier uint64 }

// read decodes a RateLimitOverride. Repeated messages are merged.
func (o *own) read(b []byte) (err error) {
	var f field
	for len(b) > 0 {
		if f, b, err = next(b); err != nil {
			return err
		}
		switch {
		case f.is(overrideRequests, protowire.VarintType):
			o.requests = uint64(uint32(f.number64))
		case f.is(overrideUnit, protowire.VarintType):
			o.unit = uint64(uint32(f.number64))
		case f.is(overrideMultiplier, protowire.BytesType):
			if err = readWrapped(f.bytes, &o.multiplier); err != nil {
				return err
			}
		}
	}
	return nil
}

// readWrapped decodes a UInt64Value or UInt32Value. Repeated messages are merged.
func readWrapped(b []byte, into *uint64) (err error) {
	var f field
	for len(b) > 0 {
		if f, b, err = next(b); err != nil {
			return err
		}
		if f.is(wrappedValue, protowire.VarintType) {
			*into = f.number64
		}
	}
	return nil
}
