package envoyrls

import (
	"math"
	"strings"
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// message is the generated code's word for a response.
func message(r *Response) *ratelimitv3.RateLimitResponse {
	code := map[bool]ratelimitv3.RateLimitResponse_Code{false: ratelimitv3.RateLimitResponse_OK, true: ratelimitv3.RateLimitResponse_OVER_LIMIT}
	out := &ratelimitv3.RateLimitResponse{OverallCode: code[r.Over()]}
	for _, s := range r.Statuses {
		status := &ratelimitv3.RateLimitResponse_DescriptorStatus{Code: code[s.Over], LimitRemaining: saturated(s.Remaining)}
		if s.Name != "" {
			unit, multiplier := unitOf(s.Window)
			status.CurrentLimit = &ratelimitv3.RateLimitResponse_RateLimit{
				Name: s.Name, RequestsPerUnit: saturated(s.Limit), Unit: ratelimitv3.RateLimitResponse_RateLimit_Unit(unit),
			}
			if multiplier > 1 {
				status.CurrentLimit.UnitMultiplier = wrapperspb.UInt32(multiplier)
			}
			status.DurationUntilReset = &durationpb.Duration{Seconds: wholeSeconds(s.Reset)}
		}
		out.Statuses = append(out.Statuses, status)
	}
	for _, h := range r.Headers {
		out.ResponseHeadersToAdd = append(out.ResponseHeadersToAdd, &corev3.HeaderValue{Key: h.Name, Value: h.Value})
	}
	return out
}

// written reads a response with the generated code.
func written(t testing.TB, r *Response) *ratelimitv3.RateLimitResponse {
	t.Helper()
	var out ratelimitv3.RateLimitResponse
	if err := proto.Unmarshal(r.Append(nil), &out); err != nil {
		t.Fatal(err)
	}
	return &out
}

// FuzzAppend compares with what the generated code reads, and the size with what it
// writes: nothing is said twice, and nothing that goes without saying.
func FuzzAppend(f *testing.F) {
	f.Add(true, "orders", int64(100), int64(99), int64(time.Minute), int64(600*time.Millisecond), "X", "y", uint8(1))
	f.Add(false, strings.Repeat("n", 130), int64(math.MaxInt64), int64(-1), int64(90*time.Second), int64(-1), strings.Repeat("h", 20_000), "", uint8(3))
	f.Add(false, "", int64(0), int64(0), int64(0), int64(0), "", "", uint8(0))
	f.Fuzz(func(t *testing.T, over bool, name string, limit, remaining, window, reset int64, header, value string, n uint8) {
		r := &Response{}
		for i := range n {
			r.Statuses = append(r.Statuses, Status{
				Over: over && i == n-1, Name: strings.ToValidUTF8(name, ""), Limit: limit, Window: time.Duration(window), Remaining: remaining, Reset: time.Duration(reset),
			})
			r.Headers = append(r.Headers, Header{strings.ToValidUTF8(header, ""), strings.ToValidUTF8(value, "")})
		}
		want := message(r)
		if got := written(t, r); !proto.Equal(got, want) {
			t.Errorf("%v\nwant %v", got, want)
		}
		if got := len(r.Append([]byte("before"))) - len("before"); got != proto.Size(want) {
			t.Errorf("%d bytes, want %d", got, proto.Size(want))
		}
	})
}

func TestUnits(t *testing.T) {
	type unit = ratelimitv3.RateLimitResponse_RateLimit_Unit
	for window, want := range map[time.Duration]struct {
		unit       unit
		multiplier uint32
	}{
		time.Second:             {ratelimitv3.RateLimitResponse_RateLimit_SECOND, 1},
		time.Minute:             {ratelimitv3.RateLimitResponse_RateLimit_MINUTE, 1},
		90 * time.Second:        {ratelimitv3.RateLimitResponse_RateLimit_SECOND, 90},
		10 * time.Minute:        {ratelimitv3.RateLimitResponse_RateLimit_MINUTE, 10},
		time.Hour:               {ratelimitv3.RateLimitResponse_RateLimit_HOUR, 1},
		day:                     {ratelimitv3.RateLimitResponse_RateLimit_DAY, 1},
		7 * day:                 {ratelimitv3.RateLimitResponse_RateLimit_WEEK, 1},
		30 * day:                {ratelimitv3.RateLimitResponse_RateLimit_MONTH, 1},
		365 * day:               {ratelimitv3.RateLimitResponse_RateLimit_YEAR, 1},
		2 * day:                 {ratelimitv3.RateLimitResponse_RateLimit_DAY, 2},
		1500 * time.Millisecond: {ratelimitv3.RateLimitResponse_RateLimit_UNKNOWN, 1},
		0:                       {ratelimitv3.RateLimitResponse_RateLimit_UNKNOWN, 1},
	} {
		if of, multiplier := unitOf(window); unit(of) != want.unit || multiplier != want.multiplier {
			t.Errorf("%v is %d of %v, want %d of %v", window, multiplier, unit(of), want.multiplier, want.unit)
		}
	}
}

// TestWritten says one answer in full.
func TestWritten(t *testing.T) {
	r := &Response{
		Statuses: []Status{
			{Remaining: Unlimited},
			{Over: true, Name: "orders", Limit: 100, Window: time.Minute, Reset: 1200 * time.Millisecond},
		},
		Headers: []Header{{"Retry-After", "2"}},
	}
	want := &ratelimitv3.RateLimitResponse{
		OverallCode: ratelimitv3.RateLimitResponse_OVER_LIMIT,
		Statuses: []*ratelimitv3.RateLimitResponse_DescriptorStatus{
			{Code: ratelimitv3.RateLimitResponse_OK, LimitRemaining: math.MaxUint32},
			{
				Code: ratelimitv3.RateLimitResponse_OVER_LIMIT, DurationUntilReset: durationpb.New(2 * time.Second),
				CurrentLimit: &ratelimitv3.RateLimitResponse_RateLimit{Name: "orders", RequestsPerUnit: 100, Unit: ratelimitv3.RateLimitResponse_RateLimit_MINUTE},
			},
		},
		ResponseHeadersToAdd: []*corev3.HeaderValue{{Key: "Retry-After", Value: "2"}},
	}
	if got := written(t, r); !proto.Equal(got, want) {
		t.Errorf("%v\nwant %v", got, want)
	}
	r.Reset()
	if got := written(t, r); !proto.Equal(got, &ratelimitv3.RateLimitResponse{OverallCode: ratelimitv3.RateLimitResponse_OK}) {
		t.Errorf("after a reset: %v", got)
	}
}
