package replay

import (
	"fmt"
	"iter"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"aliquot/limit"
	"aliquot/rules"
)

func parse(t testing.TB, text string) *rules.Set {
	t.Helper()
	set, _, err := rules.Parse("rules.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return set
}

const second = int64(1_000_000)

// asks is n requests of one API key, a second apart.
func asks(n int, apiKey string) []Request {
	out := make([]Request, n)
	for i := range out {
		out[i] = Request{At: int64(i+1) * second, Attributes: rules.AttributesOf(map[string]string{"api_key": apiKey}), Cost: 1}
	}
	return out
}

func each(requests []Request) iter.Seq[*Request] {
	return func(yield func(*Request) bool) {
		for i := range requests {
			if !yield(&requests[i]) {
				return
			}
		}
	}
}

// whole is a region that has everything.
func whole(_ Key, l limit.Limit) Right {
	return Right{Bucket: limit.Bucket{Cap: l.Capacity, Rate: l.Rate}}
}

func config(t testing.TB, before, after string) Config {
	return Config{
		Old: parse(t, before), New: parse(t, after), Hasher: rules.NewKeyHasher([]byte("secret")), NowMS: 1,
		Right: whole, Stop: func() bool { return false },
	}
}

// rule is a file with rules of these words each.
func rule(words ...string) string {
	if len(words) == 0 {
		return "rules: []\n"
	}
	return "rules:\n  - {" + strings.Join(words, "}\n  - {") + "}\n"
}

const (
	wide   = `id: r, params: {capacity: 100, refill_rate: 10}`
	narrow = `id: r, params: {capacity: 5, refill_rate: 0.1}`
)

// TestWhatDiffers: ten requests a second apart against each change of the rules that
// matters. Worked: a bucket of 5 at 0.1/s holds 5 of them, as 0.9 tokens come back.
func TestWhatDiffers(t *testing.T) {
	for name, c := range map[string]struct {
		before, after   string
		denied, allowed int64
		by              string // the only rule in the result
	}{
		"nothing":                     {rule(wide), rule(wide), 0, 0, ""},
		"nothing, both deny":          {rule(narrow), rule(narrow), 0, 0, ""},
		"a limit that is too small":   {rule(wide), rule(narrow), 5, 0, "r"},
		"a limit that is raised":      {rule(narrow), rule(wide), 0, 5, "r"},
		"another algorithm":           {rule(wide), rule(`id: r, algorithm: fixed_window, params: {limit: 3, window: 1h}`), 7, 0, "r"},
		"slots":                       {rule(wide), rule(`id: r, algorithm: concurrency, params: {limit: 4, window: 60s}`), 6, 0, "r"},
		"a log":                       {rule(wide), rule(`id: r, algorithm: sliding_window_log, params: {limit: 4, window: 60s}`), 6, 0, "r"},
		"a new rule":                  {rule(), rule(narrow), 5, 0, "r"},
		"a rule that goes":            {rule(narrow), rule(), 0, 5, "r"},
		"a rule that no longer shows": {rule(wide, `id: s, match: {api_key_pattern: zzz}, params: {capacity: 1, refill_rate: 1}`), rule(wide), 0, 0, ""},
		"shadow that ends":            {rule(narrow + ", shadow: true"), rule(narrow), 5, 0, "r"},
		"shadow that begins":          {rule(narrow), rule(narrow + ", shadow: true"), 0, 5, "r"},
		"a new shadow":                {rule(wide), rule(wide, `id: s, shadow: true, params: {capacity: 1, refill_rate: 1}`), 0, 0, ""},
		"replaced by another":         {rule(wide), rule(wide, `id: s, match: {api_key_pattern: "k*"}, replaces: [r], params: {capacity: 5, refill_rate: 0.1}`), 5, 0, "s"},
		"blocked":                     {rule(wide), rule(wide) + "blacklist: [k]\n", 10, 0, BlockList},
		"not blocked any more":        {rule(wide) + "blacklist: [k]\n", rule(wide), 0, 10, BlockList},
		"allowed by a list":           {rule(narrow), rule(narrow) + "whitelist: [k]\n", 0, 5, "r"},
		"a unit they have none of":    {rule(wide), rule(wide, `id: s, unit: tokens_in, params: {capacity: 1, refill_rate: 1}`), 0, 0, ""},
		"a cost above the capacity":   {rule(wide), rule(wide, `id: s, unit: bytes, params: {capacity: 1, refill_rate: 1}`), 10, 0, "s"},
		"an override":                 {rule(wide), rule(wide + `, override: {k: {capacity: 5, refill_rate: 0.1}}`), 5, 0, "r"},
	} {
		t.Run(name, func(t *testing.T) {
			requests := asks(10, "k")
			for i := range requests {
				requests[i].Costs = rules.CostsOf(map[string]int64{"bytes": 2})
			}
			got := Run(config(t, c.before, c.after), each(requests))
			if got.Requests != 10 || got.NewlyDenied != c.denied || got.NewlyAllowed != c.allowed || got.Cut != "" {
				t.Fatalf("%+v", got)
			}
			if c.by == "" {
				if len(got.Rules) > 0 {
					t.Fatalf("%+v", got.Rules)
				}
				return
			}
			if len(got.Rules) != 1 || got.Rules[0].ID != c.by ||
				got.Rules[0].DeniedRequests != c.denied || got.Rules[0].AllowedRequests != c.allowed {
				t.Fatalf("%+v", got.Rules)
			}
			if keys := got.Rules[0].DeniedKeys + got.Rules[0].AllowedKeys; keys != 1 || (c.denied > 0) != (len(got.Rules[0].Examples) == 1) {
				t.Errorf("%+v", got.Rules[0])
			}
		})
	}
}

// TestADeniedRequestIsChargedNowhere: a second limit that denies everything leaves the
// first one as full as it was.
func TestADeniedRequestIsChargedNowhere(t *testing.T) {
	requests := append(asks(20, "k"), Request{At: 21 * second, Attributes: rules.AttributesOf(map[string]string{"api_key": "k", "vip": "1"}), Cost: 5})
	const closed = `id: closed, match: {attributes: {vip: ""}}, params: {capacity: 1, refill_rate: 0.001}`
	got := Run(config(t, rule(closed), rule(closed, narrow)), each(requests))
	// One of the twenty passed and took one token; by the last 2 would have come back.
	if got.NewlyDenied != 0 || got.NewlyAllowed != 0 {
		t.Errorf("%+v", got)
	}
}

// TestRightsAreAskedFor of each key once, with a rule that is like a new one.
func TestRightsAreAskedFor(t *testing.T) {
	c := config(t, rule(wide), rule(`id: new, params: {capacity: 100, refill_rate: 10}`))
	var asked []string
	c.Right = func(k Key, l limit.Limit) Right {
		like := "nothing"
		if k.Like != nil {
			like = k.Like.ID
		}
		asked = append(asked, k.Rule.ID+" like "+like)
		return Right{Bucket: limit.Bucket{Cap: 2 * limit.Token}, Extra: limit.Token}
	}
	got := Run(c, each(asks(4, "k")))
	if fmt.Sprint(asked) != "[r like nothing new like r]" {
		t.Error(asked)
	}
	if got.NewlyDenied != 0 || got.Keys != 1 {
		t.Errorf("%+v", got)
	}
}

func TestAReplayIsBounded(t *testing.T) {
	c := config(t, rule(wide), rule(wide))
	looks := 0
	c.Stop = func() bool { looks++; return looks > 1 }
	if got := Run(c, each(asks(1000, "k"))); got.Requests != stopEvery || got.Cut == "" {
		t.Errorf("%+v", got)
	}
	c.Stop = func() bool { return false }
	var requests []Request
	for i := range MaxBuckets {
		requests = append(requests, asks(1, fmt.Sprint(i))...)
	}
	if got := Run(c, each(requests)); got.Requests != MaxBuckets/2 || got.Cut == "" {
		t.Errorf("%d requests, %q", got.Requests, got.Cut)
	}
}

// TestTheSameRulesDifferInNothing, whatever the requests.
func TestTheSameRulesDifferInNothing(t *testing.T) {
	text := rule(narrow, `id: ip, key: [ip], algorithm: sliding_window_counter, params: {limit: 3, window: 10s}`,
		`id: out, unit: tokens_out, algorithm: fixed_window, params: {limit: 50, window: 5s}`)
	c := config(t, text, text)
	rapid.Check(t, func(t *rapid.T) {
		var requests []Request
		at := int64(1)
		for range rapid.IntRange(0, 200).Draw(t, "requests") {
			at += rapid.Int64Range(0, 3*second).Draw(t, "pause")
			requests = append(requests, Request{
				At: at, Cost: rapid.Int64Range(1, 7).Draw(t, "cost"),
				Attributes: rules.AttributesOf(map[string]string{
					"api_key": rapid.SampledFrom([]string{"a", "b"}).Draw(t, "key"), "ip": rapid.SampledFrom([]string{"1", "2"}).Draw(t, "ip"),
				}),
				Costs: rules.CostsOf(map[string]int64{"tokens_out": rapid.Int64Range(1, 60).Draw(t, "tokens")}),
			})
		}
		if got := Run(c, each(requests)); got.NewlyDenied != 0 || got.NewlyAllowed != 0 || len(got.Rules) != 0 {
			t.Fatalf("%+v", got)
		}
	})
}
