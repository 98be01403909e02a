package checkwire

import "google.golang.org/protobuf/encoding/protowire"

// Requested returns how many requests a CheckBatchRequest or CheckStreamRequest has, as far as the
// message can be parsed. A few bytes of a request can become an object of hundreds of bytes.
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

// ObjectsAndNames returns how many objects a JSON text begins and how many names of values it has,
// outside of its strings. The text need not be well-formed.
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
