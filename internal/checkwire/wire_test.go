package checkwire

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	aliquotv1 "aliquot/proto/aliquot/v1"
	"aliquot/rules"
)

// sameRequest tells whether a request is what the generated code reads.
func sameRequest(got Request, want *aliquotv1.CheckRequest) bool {
	cost := int64(1)
	if want != nil && want.Cost != nil {
		cost = want.GetCost()
	}
	attributes, costs := slices.Clone(got.Attributes), slices.Clone(got.Costs)
	attributes.Sort()
	costs.Sort()
	return got.Namespace == want.GetNamespace() && got.Cost == cost &&
		slices.Equal(attributes, rules.AttributesOf(want.GetAttributes())) && slices.Equal(costs, rules.CostsOf(want.GetCosts()))
}

func drawRequest(t *rapid.T) *aliquotv1.CheckRequest {
	r := &aliquotv1.CheckRequest{
		Attributes: rapid.MapOfN(rapid.StringN(0, 8, 20), rapid.StringN(0, 200, 300), 0, 10).Draw(t, "attributes"),
		Costs:      rapid.MapOfN(rapid.StringN(0, 8, 20), rapid.Int64(), 0, 3).Draw(t, "costs"),
		Namespace:  rapid.String().Draw(t, "namespace"),
	}
	if rapid.Bool().Draw(t, "has a cost") {
		r.Cost = proto.Int64(rapid.Int64().Draw(t, "cost"))
	}
	return r
}

func marshal(t interface{ Fatal(...any) }, m proto.Message) []byte {
	b, err := proto.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// TestRequestsAreRead: everything that the generated code writes is ordinary.
func TestRequestsAreRead(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		batch := &aliquotv1.CheckBatchRequest{}
		for range rapid.IntRange(0, 5).Draw(t, "n") {
			batch.Requests = append(batch.Requests, drawRequest(t))
		}
		var got Requests
		if !ReadBatch(marshal(t, batch), got.Read) || len(got.All) != len(batch.GetRequests()) {
			t.Fatalf("%d of %d requests were read", len(got.All), len(batch.GetRequests()))
		}
		var again []byte
		for i, want := range batch.GetRequests() {
			if !sameRequest(got.All[i], want) {
				t.Fatalf("%+v, want %v", got.All[i], want)
			}
			again = got.All[i].AppendToBatch(again)
		}
		var second Requests
		if !ReadBatch(again, second.Read) || !slices.EqualFunc(got.All, second.All, equalRequests) {
			t.Fatalf("written again: %+v, want %+v", second.All, got.All)
		}
	})
}

func equalRequests(a, b Request) bool {
	return a.Namespace == b.Namespace && a.Cost == b.Cost && slices.Equal(a.Attributes, b.Attributes) && slices.Equal(a.Costs, b.Costs)
}

// TestOddRequests are left to the generated code, and those that look odd are not.
func TestOddRequests(t *testing.T) {
	entry := func(name, value string) string {
		text := fmt.Sprintf("\x0a%c%s\x12%c%s", len(name), name, len(value), value)
		return fmt.Sprintf("\x0a%c%s", len(text), text)
	}
	many := func(n int) string {
		var b strings.Builder
		for i := range n {
			b.WriteString(entry(fmt.Sprint(i), "v"))
		}
		return b.String()
	}
	units := func(n int) (message string) {
		for i := range n {
			message += fmt.Sprintf("\x22\x05\x0a\x01%c\x10\x05", i)
		}
		return message
	}
	for name, c := range map[string]struct {
		message  string
		ordinary bool
	}{
		"nothing":                       {"", true},
		"a name said twice":             {entry("a", "1") + entry("b", "2") + entry("a", "3"), true},
		"an entry without a value":      {"\x0a\x03\x0a\x01a", true},
		"an empty entry":                {"\x0a\x00", true},
		"a key said twice in an entry":  {"\x0a\x06\x0a\x01a\x0a\x01b", true},
		"a value before its name":       {"\x0a\x06\x12\x01v\x0a\x01a", true},
		"a value said twice":            {"\x0a\x09\x0a\x01a\x12\x01v\x12\x01w", true},
		"a name and a value, empty":     {"\x0a\x04\x0a\x00\x12\x00", true},
		"a value of 128 bytes":          {"\x0a\x86\x01\x0a\x01a\x12\x80\x01" + strings.Repeat("v", 128), true},
		"a value that is not ASCII":     {"\x0a\x07\x0a\x01a\x12\x02\xc3\xa9", true},
		"a value that is not all there": {"\x0a\x06\x0a\x01a\x12\x02v", false},
		"a name that is not all there":  {"\x0a\x05\x0a\x04a\x12\x00", false},
		"64 attributes":                 {many(64), true},
		"64 attributes, one twice":      {many(64) + entry("0", "w"), true},
		"65 attributes":                 {many(65), true},
		"100 attributes, and again":     {many(100) + many(100), true},
		"100 attributes, and odd":       {many(100) + "\x2b\x2c", false},
		"100 units":                     {units(100), true},
		"a cost of -1":                  {"\x10\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", true},
		"cost 0":                        {"\x10\x00", true},
		"a cost said twice":             {"\x10\x05\x10\x07", true},
		"a cost spelt at length":        {"\x10\x85\x80\x00", true},
		"an unknown number":             {"\x28\x05\x10\x02", true},
		"an unknown text":               {"\x2a\x02\xff\xfe\x10\x02", true},
		"unknown fixed numbers":         {"\x2d1234\x3112345678\x10\x02", true},
		"an unknown field above 15":     {"\x82\x01\x01x", true},
		"a group":                       {"\x2b\x2c", false},
		"a cost that is a text":         {"\x12\x01a", false},
		"an attribute that is a number": {"\x08\x01", false},
		"field 0":                       {"\x00\x01", false},
		"a tag spelt at length":         {"\x90\x00\x05", false},
		"a field above all numbers":     {"\xb0\xc6\xd8\xae00", false},
		"a tag alone":                   {"\x10", false},
		"text cut off":                  {"\x1a\x05abc", false},
		"a namespace not UTF-8":         {"\x1a\x01\xff", false},
		"a name not UTF-8":              {entry("\xff", "v"), false},
		"a value not UTF-8":             {entry("n", "\xff"), false},
		"an entry with something else":  {"\x0a\x02\x18\x01", false},
		"eleven bytes of a number":      {"\x10\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", false},
		"a length beyond all":           {"\x1a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := compareRequest(t, []byte(c.message)); got != c.ordinary {
				t.Errorf("ordinary: %v", got)
			}
		})
	}
}

// compareRequest holds what is read as ordinary against the generated code.
func compareRequest(t *testing.T, message []byte) (ordinary bool) {
	var got Requests
	if !got.Read(message) {
		if len(got.All)+len(got.attributes)+len(got.costs) != 0 {
			t.Fatalf("something stayed of an odd request: %+v", got)
		}
		return false
	}
	var want aliquotv1.CheckRequest
	if err := proto.Unmarshal(message, &want); err != nil {
		t.Fatalf("%q was read; %v", message, err)
	}
	if !readAs(got.All[0], &want) {
		t.Fatalf("%q: %+v, want %v", message, got.All[0], &want)
	}
	return true
}

// readAs is sameRequest where there is not too much: of that one more than may be is read.
func readAs(got Request, want *aliquotv1.CheckRequest) bool {
	attributes, costs := len(want.GetAttributes()), len(want.GetCosts())
	if attributes <= rules.MaxAttributes && costs <= rules.MaxAttributes {
		return sameRequest(got, want)
	}
	return len(got.Attributes) == min(attributes, rules.MaxAttributes+1) && len(got.Costs) == min(costs, rules.MaxAttributes+1)
}

func FuzzRequest(f *testing.F) {
	f.Add([]byte("\x0a\x08\x0a\x02ab\x12\x02cd\x10\x03\x1a\x01n\x22\x07\x0a\x03abc\x10\x05"))
	f.Add([]byte("\x28\x05\x82\x01\x01x\x0a\x00"))
	f.Fuzz(func(t *testing.T, message []byte) { compareRequest(t, message) })
}

func FuzzBatch(f *testing.F) {
	f.Add([]byte("\x0a\x0a\x0a\x08\x0a\x02ab\x12\x02cd\x0a\x02\x10\x03"))
	f.Add([]byte("\x0a\x00\x10\x01\x12\x01x"))
	f.Add([]byte("\x0a\x0a\x0a\x08\x0a\x02ab\x12\x02c\xff\x0a\x03\x1a\x01\xfe\x0a\x09\x22\x07\x0a\x03\xffbc\x10\x05\x0a\x02\x10\x03"))
	f.Fuzz(func(t *testing.T, message []byte) {
		var got Requests
		if !ReadBatch(message, got.ReadAmong) {
			return
		}
		var want aliquotv1.CheckBatchRequest
		err := proto.Unmarshal(message, &want)
		if clean := !slices.ContainsFunc(got.All, func(r Request) bool { return !r.Valid }); clean != (err == nil) {
			t.Fatalf("%q was read, and is UTF-8: %v; %v", message, clean, err)
		}
		if err != nil {
			return
		}
		if !slices.EqualFunc(got.All, want.GetRequests(), readAs) {
			t.Fatalf("%q: %+v, want %v", message, got.All, &want)
		}
	})
}

func drawDuration(t *rapid.T, label string) time.Duration {
	return time.Duration(rapid.OneOf(rapid.Int64Range(0, 3e9), rapid.Int64Range(0, 1<<62)).Draw(t, label))
}

func drawAnswer(t *rapid.T) Answer {
	text := rapid.StringN(0, 40, 300)
	a := Answer{
		Allowed: rapid.Bool().Draw(t, "allowed"), Never: rapid.Bool().Draw(t, "never"), RuleID: text.Draw(t, "rule"),
		Limit: rapid.Int64().Draw(t, "limit"), Remaining: rapid.Int64().Draw(t, "remaining"),
		ResetAfter: drawDuration(t, "reset"), RetryAfter: drawDuration(t, "retry"), Delay: drawDuration(t, "delay"),
		Mode: text.Draw(t, "mode"), Reason: text.Draw(t, "reason"), DecisionID: text.Draw(t, "id"),
		Problem: rapid.SampledFrom([]string{"", "temporary-reduced-capacity", "abnormal-usage-detected"}).Draw(t, "problem"),
	}
	for range rapid.IntRange(0, 4).Draw(t, "limits") {
		a.Limits = append(a.Limits, Limit{
			Allowed: rapid.Bool().Draw(t, "allowed"), Never: rapid.Bool().Draw(t, "never"), Shadow: rapid.Bool().Draw(t, "shadow"),
			RuleID: text.Draw(t, "rule"), Limit: rapid.Int64().Draw(t, "limit"), Remaining: rapid.Int64().Draw(t, "remaining"),
			ResetAfter: drawDuration(t, "reset"), RetryAfter: drawDuration(t, "retry"), Window: drawDuration(t, "window"), Delay: drawDuration(t, "delay"),
			Mode: text.Draw(t, "mode"), Algorithm: text.Draw(t, "algorithm"), Unit: text.Draw(t, "unit"),
		})
	}
	return a
}

func equalAnswers(a, b *Answer) bool {
	x, y := *a, *b
	same := slices.Equal(x.Limits, y.Limits)
	x.Limits, y.Limits = nil, nil
	return same && fmt.Sprintf("%+v", x) == fmt.Sprintf("%+v", y)
}

// TestAnswersAreWhatTheirMessagesSay: the bytes of an answer are those of its message to
// the reader.
func TestAnswersAreWhatTheirMessagesSay(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a := drawAnswer(t)
		var got aliquotv1.CheckResponse
		if err := proto.Unmarshal(a.Append(nil), &got); err != nil || !proto.Equal(&got, a.Message()) {
			t.Fatalf("%v, %v; want %v", &got, err, a.Message())
		}
		var read Answer
		if !read.Read(marshal(t, a.Message())) || !equalAnswers(&read, &a) {
			t.Fatalf("%+v, want %+v", read, a)
		}
	})
}

func TestResults(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var message []byte
		want := &aliquotv1.CheckBatchResponse{}
		var answers []Answer
		for i := range rapid.IntRange(0, 5).Draw(t, "n") {
			if rapid.Bool().Draw(t, "an error") {
				why := strings.Repeat("why ", i*10+1)
				message = AppendError(message, why)
				want.Results = append(want.Results, &aliquotv1.CheckBatchResult{Error: why})
				answers = append(answers, Answer{})
				continue
			}
			a := drawAnswer(t)
			message = a.AppendResult(message)
			want.Results = append(want.Results, &aliquotv1.CheckBatchResult{Response: a.Message()})
			answers = append(answers, a)
		}
		var got aliquotv1.CheckBatchResponse
		if err := proto.Unmarshal(message, &got); err != nil || !proto.Equal(&got, want) {
			t.Fatalf("%v, %v; want %v", &got, err, want)
		}
		n := 0
		if !ReadResults(message, func(result []byte) bool {
			var a Answer
			why, ok := a.ReadResult(result)
			if !ok || why != want.GetResults()[n].GetError() || !equalAnswers(&a, &answers[n]) {
				t.Fatalf("%q, %v, %+v; want %v", why, ok, a, want.GetResults()[n])
			}
			n++
			return true
		}) || n != len(answers) {
			t.Fatalf("%d of %d results", n, len(answers))
		}
	})
}

// TestLongParts: a part whose length takes one byte, two, or three.
func TestLongParts(t *testing.T) {
	for _, n := range []int{0, 1, 100, 110, 120, 127, 128, 129, 1000, 16_380, 16_383, 16_384, 16_390, 70_000} {
		a := Answer{Limits: []Limit{{RuleID: strings.Repeat("r", n)}}, Reason: "why"}
		message := a.AppendResult([]byte(nil))
		var got aliquotv1.CheckBatchResponse
		if err := proto.Unmarshal(message, &got); err != nil || !proto.Equal(got.GetResults()[0].GetResponse(), a.Message()) {
			t.Errorf("%d bytes: %v", n, err)
		}
	}
}

func FuzzAnswer(f *testing.F) {
	a := Answer{Allowed: true, RuleID: "r", Limit: 5, ResetAfter: 1500 * time.Millisecond, Mode: "store", Limits: []Limit{{RuleID: "r", Window: time.Minute}}}
	f.Add(a.Append(nil))
	f.Add([]byte("\x2a\x02\x08\x01\x2a\x02\x10\x01"))
	f.Fuzz(func(t *testing.T, message []byte) {
		var got Answer
		if !got.Read(message) {
			return
		}
		var want aliquotv1.CheckResponse
		if err := proto.Unmarshal(message, &want); err != nil {
			t.Fatalf("%q was read; %v", message, err)
		}
		// A duration that is absent is read as zero.
		var again aliquotv1.CheckResponse
		if err := proto.Unmarshal(got.Append(nil), &again); err != nil || !sameAnswer(&again, &want) {
			t.Fatalf("%q: %v, want %v; %v", message, &again, &want, err)
		}
	})
}

func sameAnswer(a, b *aliquotv1.CheckResponse) bool {
	return a.GetAllowed() == b.GetAllowed() && a.GetRuleId() == b.GetRuleId() && a.GetLimit() == b.GetLimit() &&
		a.GetRemaining() == b.GetRemaining() && a.GetResetAfter().AsDuration() == b.GetResetAfter().AsDuration() &&
		a.GetRetryAfter().AsDuration() == b.GetRetryAfter().AsDuration() && a.GetMode() == b.GetMode() &&
		a.GetReason() == b.GetReason() && a.GetNever() == b.GetNever() && a.GetDecisionId() == b.GetDecisionId() && a.GetProblem() == b.GetProblem() &&
		a.GetDelay().AsDuration() == b.GetDelay().AsDuration() && slices.EqualFunc(a.GetLimits(), b.GetLimits(), sameLimit)
}

func sameLimit(a, b *aliquotv1.LimitDecision) bool {
	return a.GetRuleId() == b.GetRuleId() && a.GetAllowed() == b.GetAllowed() && a.GetLimit() == b.GetLimit() &&
		a.GetRemaining() == b.GetRemaining() && a.GetResetAfter().AsDuration() == b.GetResetAfter().AsDuration() &&
		a.GetRetryAfter().AsDuration() == b.GetRetryAfter().AsDuration() && a.GetMode() == b.GetMode() && a.GetNever() == b.GetNever() &&
		a.GetWindow().AsDuration() == b.GetWindow().AsDuration() && a.GetAlgorithm() == b.GetAlgorithm() &&
		a.GetDelay().AsDuration() == b.GetDelay().AsDuration() && a.GetShadow() == b.GetShadow() && a.GetUnit() == b.GetUnit()
}

func TestStreamedAnswers(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, id := drawAnswer(t), rapid.Uint64().Draw(t, "id")
		message := AppendStreamedError(a.AppendStreamed(nil, id), id, "why", 3)
		want := &aliquotv1.CheckStreamResponse{Answers: []*aliquotv1.StreamedAnswer{{Id: id, Response: a.Message()}, {Id: id, Error: "why", Code: 3}}}
		var got aliquotv1.CheckStreamResponse
		if err := proto.Unmarshal(message, &got); err != nil || !proto.Equal(&got, want) {
			t.Fatalf("%v, %v; want %v", &got, err, want)
		}
	})
}

func FuzzStreamed(f *testing.F) {
	f.Add([]byte("\x0a\x06\x08\x05\x12\x02\x10\x03\x0a\x00"))
	f.Add([]byte("\x0a\x08\x12\x02\x10\x03\x12\x02\x10\x04"))
	f.Fuzz(func(t *testing.T, message []byte) {
		var got Requests
		var ids []uint64
		if !ReadStreamed(message, func(id uint64, request []byte) bool {
			ids = append(ids, id)
			return got.Read(request)
		}) {
			return
		}
		var want aliquotv1.CheckStreamRequest
		if err := proto.Unmarshal(message, &want); err != nil {
			t.Fatalf("%q was read; %v", message, err)
		}
		if len(ids) != len(want.GetRequests()) {
			t.Fatalf("%q: ids %v, want %v", message, ids, &want)
		}
		for i, w := range want.GetRequests() {
			if ids[i] != w.GetId() || !sameRequest(got.All[i], w.GetRequest()) {
				t.Fatalf("%q: %d, %+v; want %v", message, ids[i], got.All[i], w)
			}
		}
	})
}
