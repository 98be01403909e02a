package client

import (
	"fmt"
	"unicode/utf8"

	aliquotv1 "aliquot/proto/aliquot/v1"
)

const (
	// maxRequest is above every request that a region decides: 64 attributes of 4 KiB, and
	// their names.
	maxRequest = 512 << 10
	// maxMessage is how large a message of several requests gets before the next one begins:
	// with one more request it is below the 4 MiB that a region reads.
	maxMessage = 1 << 20
	// fieldBytes is about what a field takes beside its texts.
	fieldBytes = 16
)

// sizeOf is about how many bytes a request takes in a message, rounded up.
func sizeOf(in *aliquotv1.CheckRequest) int {
	n := 2*fieldBytes + len(in.GetNamespace())
	for name, value := range in.GetAttributes() {
		n += fieldBytes + len(name) + len(value)
	}
	for unit := range in.GetCosts() {
		n += 2*fieldBytes + len(unit)
	}
	return n
}

// sendable refuses what cannot be sent, or is more than any region reads: such a request
// would pass for one that the region did not answer, be decided by the fallback, and take
// those of others along that share its stream. What a client puts into a header must not
// bring that about. The error wraps ErrInvalid, and shows no value.
func sendable(in *aliquotv1.CheckRequest) error {
	if n := sizeOf(in); n > maxRequest {
		return fmt.Errorf("%w: it has %d bytes, which is more than a region reads", ErrInvalid, n)
	}
	if !utf8.ValidString(in.GetNamespace()) {
		return fmt.Errorf("%w: the namespace is not valid UTF-8", ErrInvalid)
	}
	for name, value := range in.GetAttributes() {
		switch {
		case !utf8.ValidString(name):
			return fmt.Errorf("%w: the name of an attribute is not valid UTF-8", ErrInvalid)
		case !utf8.ValidString(value):
			return fmt.Errorf("%w: attribute %q is not valid UTF-8", ErrInvalid, name)
		}
	}
	for unit := range in.GetCosts() {
		if !utf8.ValidString(unit) {
			return fmt.Errorf("%w: a unit of costs is not valid UTF-8", ErrInvalid)
		}
	}
	return nil
}
