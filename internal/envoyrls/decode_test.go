package envoyrls

import (
	"bytes"
	"errors"
	"math"
	"runtime"
	"strings"
	"testing"

	descriptorv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/dynamicpb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"aliquot/rules"
)

// of is a descriptor of keys and values.
func of(pairs ...string) *descriptorv3.RateLimitDescriptor {
	d := &descriptorv3.RateLimitDescriptor{}
	for i := 0; i < len(pairs); i += 2 {
		d.Entries = append(d.Entries, &descriptorv3.RateLimitDescriptor_Entry{Key: pairs[i], Value: pairs[i+1]})
	}
	return d
}

func with(d *descriptorv3.RateLimitDescriptor, change func(*descriptorv3.RateLimitDescriptor)) *descriptorv3.RateLimitDescriptor {
	change(d)
	return d
}

func request(domain string, hits uint32, descriptors ...*descriptorv3.RateLimitDescriptor) *ratelimitv3.RateLimitRequest {
	return &ratelimitv3.RateLimitRequest{Domain: domain, HitsAddend: hits, Descriptors: descriptors}
}

// override is a limit that a descriptor brings along.
var override = &descriptorv3.RateLimitDescriptor_RateLimitOverride{
	RequestsPerUnit: 3, Unit: typev3.RateLimitUnit_MINUTE, UnitMultiplier: wrapperspb.UInt32(2),
}

// theirs are the checks of a message that the generated code has read.
func theirs(in *ratelimitv3.RateLimitRequest) *Request {
	r := &Request{domain: in.GetDomain(), hits: in.GetHitsAddend()}
	for _, d := range in.GetDescriptors() {
		for _, e := range d.GetEntries() {
			r.entries = append(r.entries, entry{e.GetKey(), e.GetValue()})
		}
		r.descriptors = append(r.descriptors, descriptor{
			entries: len(r.entries), hits: d.GetHitsAddend().GetValue(), hitsSet: d.GetHitsAddend() != nil,
			negative: d.GetIsNegativeHits(), override: d.GetLimit() != nil,
		})
	}
	r.err = r.check()
	return r
}

// same compares what two readings made of a message.
func same(t *testing.T, got, want *Request) {
	t.Helper()
	if (got.err == nil) != (want.err == nil) || got.err != nil && got.err.Error() != want.err.Error() {
		t.Fatalf("error %v, want %v", got.err, want.err)
	}
	if len(got.checks) != len(want.checks) {
		t.Fatalf("%d checks, want %d", len(got.checks), len(want.checks))
	}
	for i := range want.checks {
		g, w := got.checks[i], want.checks[i]
		if text(g.Attributes) != text(w.Attributes) {
			t.Errorf("check %d of %q, want %q", i, text(g.Attributes), text(w.Attributes))
		}
		g.Attributes, w.Attributes = nil, nil
		if g.Cost != w.Cost || g.Look != w.Look || g.Refund != w.Refund || g.Override != w.Override {
			t.Errorf("check %d is %+v, want %+v", i, g, w)
		}
	}
}

func text(attributes rules.Attributes) string {
	var b strings.Builder
	for _, a := range attributes {
		b.WriteString(a.Name + "=" + a.Value + "\x00")
	}
	return b.String()
}

// messages are seeds of the fuzzer, and cases by themselves.
func messages(t testing.TB) [][]byte {
	t.Helper()
	out := [][]byte{
		nil, {0}, {0x80}, {0x0a}, {0x0a, 5, 'a'}, {0x0a, 1, 0xff}, {0x0b, 0x0c}, {0x0b, 0x0b, 0x0c, 0x0c}, {0x0c}, {0x0b, 0x14}, {0x0e}, {0x0f}, {0x0d, 1, 2, 3, 4},
		{0x18, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1}, {0x18, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2}, {0x08, 1, 0x0a, 1, 'a'},
		{0xfa, 0xff, 0xff, 0xff, 0x0f, 0}, {0x82, 0x80, 0x80, 0x80, 0x10, 0}, {0x8a, 0, 1, 'a'},
	}
	for _, m := range []*ratelimitv3.RateLimitRequest{
		request("bench", 0, of("tenant", "t1")),
		request("bench", 3, of("tenant", "t1", "path", "/v1/é"), of("remote_address", "192.0.2.1")),
		request("", 1, of("a", "b")),
		request("d", 1),
		request("d", 1, of()),
		request("d", math.MaxUint32, with(of("a", "b"), func(d *descriptorv3.RateLimitDescriptor) { d.HitsAddend = wrapperspb.UInt64(0) })),
		request("d", 1, with(of("a", "b"), func(d *descriptorv3.RateLimitDescriptor) { d.HitsAddend = wrapperspb.UInt64(math.MaxUint64) })),
		request("d", 7, with(of("a", "b"), func(d *descriptorv3.RateLimitDescriptor) { d.IsNegativeHits, d.Limit = true, override })),
		request("d", 1, of("", "x", "domain", "other", "a", "1", "a", "2", strings.Repeat("k", 65), "v")),
	} {
		b, err := proto.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		// Said again a field is replaced, or a message merged, and what nobody knows skipped.
		out = append(out, b, append(append([]byte(nil), b...), b...), protowire.AppendString(protowire.AppendTag(b, 99, protowire.BytesType), "\xff"))
	}
	// A cost of which there are two halves, one that has none, and an override that is no message.
	descriptor := []byte{descriptorHits<<3 | 2, 2, 8, 5, descriptorHits<<3 | 2, 0}
	for _, more := range [][]byte{descriptor, {descriptorLimit<<3 | 2, 2, overrideMultiplier<<3 | 2, 9}, {descriptorLimit<<3 | 2, 3, overrideMultiplier<<3 | 2, 1, 0xff}, {descriptorNegative << 3, 2}} {
		out = append(out, protowire.AppendBytes(append([]byte{0x0a, 1, 'd'}, requestDescriptors<<3|2), more))
	}
	for _, m := range out {
		out = append(out, bytes.ReplaceAll(m, []byte("t1"), []byte("\xff\xc3")), bytes.ReplaceAll(m, []byte("tenant"), []byte("te\xffant")))
	}
	return out
}

// FuzzDecode compares with the generated code: what is read, and what is refused. Where
// that refuses, it may be for a text that is not UTF-8; then the message is read with bytes
// for texts.
func FuzzDecode(f *testing.F) {
	for _, m := range messages(f) {
		f.Add(m)
	}
	reused, kind := &Request{}, bytesForTexts(f)
	f.Fuzz(func(t *testing.T, data []byte) {
		reused.Decode(data)
		var m ratelimitv3.RateLimitRequest
		err := proto.Unmarshal(data, &m)
		if err == nil {
			same(t, reused, theirs(&m))
			return
		}
		loose := dynamicpb.NewMessage(kind)
		if proto.Unmarshal(data, loose) == nil {
			same(t, reused, theirs(repaired(t, loose)))
		} else if !errors.Is(reused.err, ErrInvalid) || !strings.Contains(reused.err.Error(), "cannot be read") {
			t.Fatalf("read with error %v what the generated code refuses: %v", reused.err, err)
		}
	})
}

// bytesForTexts is RateLimitRequest with fields of bytes in place of strings.
func bytesForTexts(t testing.TB) protoreflect.MessageDescriptor {
	t.Helper()
	describe := func(of protoreflect.MessageDescriptor, types map[string]string) *descriptorpb.DescriptorProto {
		d := protodesc.ToDescriptorProto(of)
		d.NestedType, d.EnumType, d.Options = nil, nil, nil
		for _, f := range d.GetField() {
			f.Options, f.OneofIndex = nil, nil
			switch f.GetType() {
			case descriptorpb.FieldDescriptorProto_TYPE_STRING:
				f.Type = descriptorpb.FieldDescriptorProto_TYPE_BYTES.Enum()
			case descriptorpb.FieldDescriptorProto_TYPE_ENUM:
				f.Type, f.TypeName = descriptorpb.FieldDescriptorProto_TYPE_INT32.Enum(), nil
			case descriptorpb.FieldDescriptorProto_TYPE_MESSAGE:
				f.TypeName = proto.String(types[f.GetName()])
			}
		}
		return d
	}
	file, err := protodesc.NewFile(&descriptorpb.FileDescriptorProto{
		Name: proto.String("loose.proto"), Syntax: proto.String("proto3"),
		MessageType: []*descriptorpb.DescriptorProto{
			describe((&ratelimitv3.RateLimitRequest{}).ProtoReflect().Descriptor(), map[string]string{"descriptors": ".RateLimitDescriptor"}),
			describe((&descriptorv3.RateLimitDescriptor{}).ProtoReflect().Descriptor(),
				map[string]string{"entries": ".Entry", "limit": ".RateLimitOverride", "hits_addend": ".UInt64Value"}),
			describe((&descriptorv3.RateLimitDescriptor_Entry{}).ProtoReflect().Descriptor(), nil),
			describe((&descriptorv3.RateLimitDescriptor_RateLimitOverride{}).ProtoReflect().Descriptor(), map[string]string{"unit_multiplier": ".UInt32Value"}),
			describe((&wrapperspb.UInt64Value{}).ProtoReflect().Descriptor(), nil),
			describe((&wrapperspb.UInt32Value{}).ProtoReflect().Descriptor(), nil),
		},
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return file.Messages().ByName("RateLimitRequest")
}

// repaired is a message read with bytes for texts, with texts.
func repaired(t testing.TB, loose protoreflect.Message) *ratelimitv3.RateLimitRequest {
	t.Helper()
	var repair func(protoreflect.Message)
	repair = func(m protoreflect.Message) {
		m.SetUnknown(nil)
		m.Range(func(f protoreflect.FieldDescriptor, v protoreflect.Value) bool {
			switch {
			case f.Kind() == protoreflect.BytesKind:
				m.Set(f, protoreflect.ValueOfBytes([]byte(strings.ToValidUTF8(string(v.Bytes()), "\uFFFD"))))
			case f.IsList():
				for i := range v.List().Len() {
					repair(v.List().Get(i).Message())
				}
			case f.Kind() == protoreflect.MessageKind:
				repair(v.Message())
			}
			return true
		})
	}
	repair(loose)
	data, err := proto.Marshal(loose.Interface())
	if err != nil {
		t.Fatal(err)
	}
	var out ratelimitv3.RateLimitRequest
	if err := proto.Unmarshal(data, &out); err != nil {
		t.Fatal(err)
	}
	return &out
}

// TestGiantRequestsTakeNoMemory: what is too much is counted, and not kept.
func TestGiantRequestsTakeNoMemory(t *testing.T) {
	const n = 1 << 20 // in 2 MiB
	domain := []byte("\x0a\x01d")
	for what, message := range map[string][]byte{
		"1048576 descriptors":             append(domain, bytes.Repeat([]byte{requestDescriptors<<3 | 2, 0}, n)...),
		"a descriptor of 1048576 entries": append(protowire.AppendBytes([]byte{requestDescriptors<<3 | 2}, bytes.Repeat([]byte{descriptorEntries<<3 | 2, 0}, n)), domain...),
	} {
		var r Request
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		err := r.Decode(message)
		runtime.ReadMemStats(&after)
		if !errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), what+"; at most") {
			t.Errorf("%s: %v", what, err)
		}
		if made := after.TotalAlloc - before.TotalAlloc; made > 1<<20 {
			t.Errorf("%s: %d MiB were made", what, made>>20)
		}
	}
}

// TestChecks says what a descriptor becomes.
func TestChecks(t *testing.T) {
	long, name := strings.Repeat("v", maxValueBytes-1), strings.Repeat("k", maxNameBytes)
	for _, c := range []struct {
		what       string
		in         *ratelimitv3.RateLimitRequest
		attributes string
		cost       int64
		look       bool
	}{
		{"entries in their order", request("d", 0, of("z", "1", "a", "2")), "domain=d\x00z=1\x00a=2\x00", 1, false},
		{"the cost of the request", request("d", 5, of("a", "1")), "domain=d\x00a=1\x00", 5, false},
		{"the descriptor's own cost", request("d", 5, with(of("a", "1"), func(d *descriptorv3.RateLimitDescriptor) { d.HitsAddend = wrapperspb.UInt64(2) })), "domain=d\x00a=1\x00", 2, false},
		{"a cost above all limits", request("d", 5, with(of("a", "1"), func(d *descriptorv3.RateLimitDescriptor) { d.HitsAddend = wrapperspb.UInt64(math.MaxUint64) })), "domain=d\x00a=1\x00", maxCost, false},
		{"a look", request("d", 5, with(of("a", "1"), func(d *descriptorv3.RateLimitDescriptor) { d.HitsAddend = wrapperspb.UInt64(0) })), "domain=d\x00a=1\x00", 1, true},
		{"a refund is a look", request("d", 5, with(of("a", "1"), func(d *descriptorv3.RateLimitDescriptor) { d.IsNegativeHits = true })), "domain=d\x00a=1\x00", 5, true},
		{"the domain is the request's", request("d", 1, of("domain", "e", "a", "1")), "domain=d\x00a=1\x00", 1, false},
		{"the first of a key", request("d", 1, of("a", "1", "a", "2")), "domain=d\x00a=1\x00", 1, false},
		{"keys that no rule names", request("d", 1, of("", "1", name, "2", name+"k", "3")), "domain=d\x00" + name + "=2\x00", 1, false},
		{"what is not UTF-8", &ratelimitv3.RateLimitRequest{Domain: "d"}, "domain=d\x00a=x\uFFFDy\x00", 1, false},
		{"a long value", request("d", 1, of("a", long+"éé")), "domain=d\x00a=" + long + "\x00", 1, false},
		{"a long value that ends well", request("d", 1, of("a", long+"ab")), "domain=d\x00a=" + long + "a\x00", 1, false},
	} {
		data, err := proto.Marshal(c.in)
		if err != nil {
			t.Fatal(err)
		}
		if len(c.in.GetDescriptors()) == 0 { // of bytes that Marshal refuses
			data = append(data, 0x12, 10, 0x0a, 8, 0x0a, 1, 'a', 0x12, 3, 'x', 0xff, 'y')
		}
		var r Request
		r.Decode(data)
		checks, err := r.Checks()
		if err != nil || len(checks) != 1 {
			t.Errorf("%s: %d checks, %v", c.what, len(checks), err)
			continue
		}
		if got := checks[0]; text(got.Attributes) != c.attributes || got.Cost != c.cost || got.Look != c.look {
			t.Errorf("%s: %q, cost %d, look %t; want %q, %d, %t", c.what, text(got.Attributes), got.Cost, got.Look, c.attributes, c.cost, c.look)
		}
	}
}

// TestNoChecks has the requests that nothing can be made of.
func TestNoChecks(t *testing.T) {
	many := make([]*descriptorv3.RateLimitDescriptor, maxDescriptors+1)
	wide := make([]string, 0, 2*(maxEntries+1))
	for i := range many {
		many[i] = of("a", "b")
	}
	for range maxEntries + 1 {
		wide = append(wide, "a", "b")
	}
	for want, in := range map[string]*ratelimitv3.RateLimitRequest{
		"rate limit domain must not be empty":          request("", 1, of("a", "b")),
		"rate limit descriptor list must not be empty": request("d", 1),
		"1001 descriptors":                             request("d", 1, many...),
		"a descriptor of 64 entries":                   request("d", 1, of(wide...)),
	} {
		data, err := proto.Marshal(in)
		if err != nil {
			t.Fatal(err)
		}
		var r Request
		r.Decode(data)
		if _, err := r.Checks(); !errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}
