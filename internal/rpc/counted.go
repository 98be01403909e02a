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

// errTooManyParts: a message that is small on the wire would take a lot of memory.
var errTooManyParts = errors.New("the message has too many parts")

// CountedCodecs returns the option, for handlers, that counts the messages in a message before it
// reads it, and refuses one with more than most: two bytes on the wire can be a hundred in memory.
// It is for proto and JSON alike, and stands after JSONCodec.
func CountedCodecs(most int) connect.HandlerOption {
	return connect.WithHandlerOptions(connect.WithCodec(countedProto{most}), connect.WithCodec(countedJSON{most: most}))
}

// countedProto is connect's own codec of that name, and counts first.
type countedProto struct{ most int }

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
	if left := countParts(data, m.ProtoReflect().Descriptor(), c.most); left < 0 {
		return fmt.Errorf("%w: more than %d", errTooManyParts, c.most)
	}
	return proto.Unmarshal(data, m)
}

// countParts takes the repeated and nested values of a message from how many there may be; what is
// left is below 0 where they are too many. What is malformed ends the count: decoding ends there too.
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
			continue // unknown fields are kept as they came
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

// countedJSON is JSONCodec's, and counts first.
type countedJSON struct {
	jsonCodec
	most int
}

func (c countedJSON) Unmarshal(data []byte, message any) error {
	// Each message and each value of a list has one of these signs, or shares it with one other.
	if n := bytes.Count(data, []byte("{")) + bytes.Count(data, []byte(",")); n > 2*c.most {
		return fmt.Errorf("%w: more than %d", errTooManyParts, c.most)
	}
	return c.jsonCodec.Unmarshal(data, message)
}

// Uncompressed refuses requests that come compressed, for whose answer the RPC codes are used: what
// is unpacked can be a thousand times as large as what was sent.
func Uncompressed(next http.Handler) http.Handler {
	errorWriter := connect.NewErrorWriter()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for _, name := range []string{"Content-Encoding", "Grpc-Encoding", "Connect-Content-Encoding"} {
			if packed := r.Header.Get(name); packed != "" && packed != "identity" {
				_ = errorWriter.Write(w, r, connect.NewError(connect.CodeUnimplemented, errPacked)) // the peer has gone: nobody to tell
				return
			}
		}
		next.ServeHTTP(w, r)
	})
}

// errPacked: a request came compressed where none may.
var errPacked = errors.New("requests of this service must not be compressed; send them as they are")
