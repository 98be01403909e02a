package rpc

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// errTooManyParts: a message that is small on the wire would take much memory.
var errTooManyParts = errors.New("the message has too many parts")

// CountedCodecs returns the option, for handlers, that counts the nested messages of a message
// before it decodes it, and refuses more than max: two bytes on the wire can become a hundred in
// memory. It covers proto and JSON, and must come after JSONCodec.
func CountedCodecs(max int) connect.HandlerOption {
	return connect.WithHandlerOptions(connect.WithCodec(countedProto{max}), connect.WithCodec(countedJSON{max: max}))
}

// countedProto counts before it decodes like connect's own codec of that name.
type countedProto struct{ max int }

func (countedProto) Name() string { return "proto" }

func (countedProto) Marshal(message any) ([]byte, error) {
	m, ok := message.(proto.Message)
	if !ok {
		return nil, fmt.Errorf("rpc: %T is not a protobuf message", message)
	}
	return proto.Marshal(m)
}

func (c countedProto) Unmarshal(data []byte, message any) error {
	m, ok := message.(proto.Message)
	if !ok {
		return fmt.Errorf("rpc: %T is not a protobuf message", message)
	}
	if err := CheckParts(data, m, c.max); err != nil {
		return err
	}
	return proto.Unmarshal(data, m)
}

// CheckParts returns an error if the bytes of a message like m have more than max repeated and nested values.
func CheckParts(data []byte, m proto.Message, max int) error {
	if countParts(data, m.ProtoReflect().Descriptor(), max) < 0 {
		return fmt.Errorf("%w: more than %d", errTooManyParts, max)
	}
	return nil
}

// countParts subtracts the repeated and nested values of a message from left, and returns the rest.
// The rest is below 0 if there are too many. Malformed data ends the count, because decoding ends
// there too.
func countParts(data []byte, of protoreflect.MessageDescriptor, left int) int {
	fields := of.Fields()
	for len(data) > 0 && left >= 0 {
		number, kind, n := protowire.ConsumeTag(data)
		if n < 0 {
			return left
		}
		data = data[n:]
		if n = protowire.ConsumeFieldValue(number, kind, data); n < 0 {
			return left
		}
		value := data[:n]
		data = data[n:]
		field := fields.ByNumber(number)
		if field == nil || kind != protowire.BytesType {
			continue // decoding keeps unknown fields as bytes
		}
		inner, _ := protowire.ConsumeBytes(value)
		switch {
		case field.Message() != nil:
			left = countParts(inner, field.Message(), left-1)
		case field.IsList():
			left--
		}
	}
	return left
}

// countedJSON counts before it decodes like JSONCodec.
type countedJSON struct {
	jsonCodec
	max int
}

func (c countedJSON) Unmarshal(data []byte, message any) error {
	if countSeparators(data) > 2*c.max {
		return fmt.Errorf("%w: more than %d", errTooManyParts, c.max)
	}
	return c.jsonCodec.Unmarshal(data, message)
}

// countSeparators returns how many opening braces and commas JSON has outside of its texts. Each
// message and each value of a list has one of these, or shares it with one other.
func countSeparators(data []byte) (n int) {
	for len(data) > 0 {
		i := bytes.IndexByte(data, '"')
		if i < 0 {
			i = len(data)
		}
		n += bytes.Count(data[:i], []byte("{")) + bytes.Count(data[:i], []byte(","))
		data = data[i:]
		if len(data) == 0 {
			break
		}
		data = afterText(data)
	}
	return n
}

// afterText returns what follows the text that data begins with; nothing if the text has no end.
func afterText(data []byte) []byte {
	for i := 1; i < len(data); i++ {
		switch data[i] {
		case '\\':
			i++
		case '"':
			return data[i+1:]
		}
	}
	return nil
}

// Uncompressed refuses compressed requests, with an RPC error. Uncompressed data can be a thousand
// times as large as what was sent.
func Uncompressed(next http.Handler) http.Handler {
	errorWriter := connect.NewErrorWriter()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for _, name := range []string{"Content-Encoding", "Grpc-Encoding", "Connect-Content-Encoding"} {
			if encoding := r.Header.Get(name); encoding != "" && encoding != "identity" {
				_ = errorWriter.Write(w, r, connect.NewError(connect.CodeUnimplemented, errCompressed)) // an error means that the peer has gone
				return
			}
		}
		next.ServeHTTP(w, r)
	})
}

// errCompressed: a request is compressed where that is not allowed.
var errCompressed = errors.New("requests of this service must not be compressed; send them as they are")
