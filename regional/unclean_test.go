package regional

import (
	"errors"
	"strings"
	"testing"

	"connectrpc.com/connect"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	aliquotv1 "aliquot/proto/aliquot/v1"
	"aliquot/proto/aliquot/v1/aliquotv1connect"
)

// uncleanBatch is a CheckBatchRequest of three, of which the second has bytes of a client's
// that are no text, as gateways in some languages send them.
func uncleanBatch() []byte {
	var message []byte
	for _, value := range []string{"a", "\xff\xfe", "c"} {
		entry := protowire.AppendString(protowire.AppendTag(nil, 1, protowire.BytesType), "agent")
		entry = protowire.AppendString(protowire.AppendTag(entry, 2, protowire.BytesType), value)
		request := protowire.AppendBytes(protowire.AppendTag(nil, 1, protowire.BytesType), entry)
		message = protowire.AppendBytes(protowire.AppendTag(message, 1, protowire.BytesType), request)
	}
	return message
}

const uncleanSays = `attribute "agent" is not valid UTF-8`

// TestBytesOfOneClientCostTheOthersNothing in a batch: they are refused by themselves.
func TestBytesOfOneClientCostTheOthersNothing(t *testing.T) {
	inNetwork(t, func(t *testing.T) {
		d, _ := startLive(t, testConfig(newLeader(t, roomyRule).address()))
		raw, overGRPC := uncleanBatch(), []byte(nil)
		if err := dialGRPC(t, d).Invoke(t.Context(), aliquotv1connect.LimiterServiceCheckBatchProcedure, &raw, &overGRPC, grpc.ForceCodec(rawBytes{})); err != nil {
			t.Fatal(err)
		}
		client := connect.NewClient[[]byte, []byte](clientOf(d), "http://"+d.Addr()+aliquotv1connect.LimiterServiceCheckBatchProcedure, connect.WithCodec(rawBytes{}))
		overConnect, err := client.CallUnary(t.Context(), connect.NewRequest(&raw))
		if err != nil {
			t.Fatal(err)
		}
		for name, reply := range map[string][]byte{"gRPC": overGRPC, "Connect": *overConnect.Msg} {
			var out aliquotv1.CheckBatchResponse
			if err := proto.Unmarshal(reply, &out); err != nil {
				t.Fatal(err)
			}
			results := out.GetResults()
			if len(results) != 3 || !results[0].GetResponse().GetAllowed() || !results[2].GetResponse().GetAllowed() || !strings.Contains(results[1].GetError(), uncleanSays) {
				t.Errorf("%s: %v", name, results)
			}
		}
	})
}

// uncleanStream is the same as a CheckStreamRequest.
func uncleanStream() (message []byte) {
	id := uint64(0)
	for rest := uncleanBatch(); len(rest) > 0; id++ {
		_, _, n := protowire.ConsumeTag(rest)
		request, size := protowire.ConsumeBytes(rest[n:])
		rest = rest[n+size:]
		one := protowire.AppendVarint(protowire.AppendTag(nil, 1, protowire.VarintType), id)
		one = protowire.AppendBytes(protowire.AppendTag(one, 2, protowire.BytesType), request)
		message = protowire.AppendBytes(protowire.AppendTag(message, 1, protowire.BytesType), one)
	}
	return message
}

// TestBytesOfOneClientEndNoStream, on which the checks of many travel.
func TestBytesOfOneClientEndNoStream(t *testing.T) {
	d, _ := startLive(t, testConfig(newLeader(t, roomyRule).address()))
	overGRPC, err := dialGRPC(t, d).NewStream(t.Context(), &grpc.StreamDesc{ServerStreams: true, ClientStreams: true},
		aliquotv1connect.LimiterServiceCheckStreamProcedure, grpc.ForceCodec(rawBytes{}))
	if err != nil {
		t.Fatal(err)
	}
	client := h2c()
	defer client.CloseIdleConnections()
	overConnect := connect.NewClient[[]byte, []byte](client, "http://"+d.Addr()+aliquotv1connect.LimiterServiceCheckStreamProcedure,
		connect.WithCodec(rawBytes{})).CallBidiStream(t.Context())
	for name, ask := range map[string]func(message []byte) (reply []byte, err error){
		"gRPC": func(message []byte) (reply []byte, err error) {
			return reply, errors.Join(overGRPC.SendMsg(&message), overGRPC.RecvMsg(&reply))
		},
		"Connect": func(message []byte) (reply []byte, err error) {
			if err := overConnect.Send(&message); err != nil {
				return nil, err
			}
			got, err := overConnect.Receive()
			if err != nil {
				return nil, err
			}
			return *got, nil
		},
	} {
		for range 2 {
			reply, err := ask(uncleanStream())
			var out aliquotv1.CheckStreamResponse
			if err := errors.Join(err, proto.Unmarshal(reply, &out)); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			answers := out.GetAnswers()
			if len(answers) != 3 || !answers[0].GetResponse().GetAllowed() || !answers[2].GetResponse().GetAllowed() ||
				!strings.Contains(answers[1].GetError(), uncleanSays) || answers[1].GetCode() != uint32(connect.CodeInvalidArgument) {
				t.Errorf("%s: %v", name, answers)
			}
		}
	}
	if err := errors.Join(overConnect.CloseRequest(), overConnect.CloseResponse()); err != nil {
		t.Error(err)
	}
}
