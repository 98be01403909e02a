package wire

import "google.golang.org/protobuf/encoding/protowire"

// Requested is how many requests a CheckBatchRequest or CheckStreamRequest has, as far as the
// message can be read: a few bytes of one can stand for an object of hundreds.
func Requested(message []byte) (n int) {
	for len(message) > 0 {
		number, kind, tag := protowire.ConsumeTag(message)
		if tag < 0 {
			return n
		}
		value := protowire.ConsumeFieldValue(number, kind, message[tag:])
		if value < 0 {
			return n
		}
		if number == batchRequest>>3 && kind == protowire.BytesType {
			n++
		}
		message = message[tag+value:]
	}
	return n
}

// ObjectsAndNames is how many objects a text of JSON begins, and how many names it gives to
// values, outside of its strings. It need not be well-formed.
func ObjectsAndNames(text []byte) (objects, names int) {
	inString := false
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case inString && c == '\\':
			i++
		case c == '"':
			inString = !inString
		case inString:
		case c == '{':
			objects++
		case c == ':':
			names++
		}
	}
	return objects, names
}
