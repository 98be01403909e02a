package rpc

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
)

// JSONCodec returns the option, for both handlers and clients, that prints zero values in JSON
// ("allowed":false, "remaining":"0") and adds no padding. A script can so rely on every field being
// there. Unset messages stay absent. A request with an unknown field is refused, because a misspelt
// "cost" must not count as 1.
func JSONCodec() connect.Option { return connect.WithCodec(JSON()) }

// JSON returns the codec of JSONCodec.
func JSON() connect.Codec { return jsonCodec{} }

// jsonCodec replaces connect's own codec of the same name.
type jsonCodec struct{}

func (jsonCodec) Name() string { return "json" }

func (jsonCodec) Marshal(message any) ([]byte, error) {
	m, ok := message.(proto.Message)
	if !ok {
		return nil, fmt.Errorf("rpc: %T is not a protobuf message", message)
	}
	return MarshalJSON(m)
}

// MarshalJSON returns a message as JSONCodec prints it.
func MarshalJSON(m proto.Message) ([]byte, error) {
	raw, err := protojson.MarshalOptions{EmitDefaultValues: true}.Marshal(m)
	if err != nil {
		return nil, err
	}
	// protojson pads at random, so that programs do not compare its bytes. Programs do compare
	// them.
	var out bytes.Buffer
	out.Grow(len(raw))
	if err := json.Compact(&out, raw); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}

func (jsonCodec) Unmarshal(data []byte, message any) error {
	m, ok := message.(proto.Message)
	if !ok {
		return fmt.Errorf("rpc: %T is not a protobuf message", message)
	}
	if len(data) == 0 {
		return errors.New("the body is empty; send a JSON object")
	}
	return protojson.Unmarshal(data, m)
}
