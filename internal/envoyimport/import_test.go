package envoyimport

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"aliquot/rules"
	"aliquot/rules/source"
)

func imported(t *testing.T, texts ...string) (Result, *rules.Set) {
	t.Helper()
	var files []File
	for i, text := range texts {
		files = append(files, File{Name: "f" + string(rune('1'+i)), Data: []byte(text)})
	}
	r, err := Import(files)
	if err != nil {
		t.Fatal(err)
	}
	set, warnings, err := rules.Parse("imported", r.YAML)
	if err != nil || len(warnings) > 0 {
		t.Fatalf("%v %v\n%s", err, warnings, r.YAML)
	}
	return r, set
}

func notes(r Result) string {
	var b strings.Builder
	for _, n := range r.Notes {
		b.WriteString(n.String() + "\n")
	}
	return b.String()
}

const shop = `---
domain: shop
descriptors:
  - key: database
    value: users
    rate_limit: {unit: second, requests_per_unit: 500}
  - key: database
    rate_limit: {unit: Minute, requests_per_unit: 100}
  - key: path
    value: "/files/*"
    share_threshold: true
    rate_limit: {unit: week, requests_per_unit: 9}
    descriptors:
      - key: user
        shadow_mode: true
        rate_limit: {unit: month, requests_per_unit: 7}
      - key: user
        value: "007"
        rate_limit: {unlimited: true}
`

// TestAnImportedFileReads pins the text: ids, keys and order must not change from one
// release to the next, or buckets would be lost.
func TestAnImportedFileReads(t *testing.T) {
	r, _ := imported(t, shop)
	want := header + `defaults: {algorithm: fixed_window}
rules:
  - id: shop.database-users
    match:
      attributes:
        domain: shop
        database: users
        path: ""
        user: ""
    key: []
    replaces: [shop.database]
    params: {limit: 500, window: 1s}
  - id: shop.database
    match:
      attributes:
        domain: shop
        database: "?*"
        path: ""
        user: ""
    key: [database]
    params: {limit: 100, window: 1m}
  - id: shop.path--files--any
    match:
      attributes:
        domain: shop
        path: "/files/*"
        database: ""
        user: ""
    key: []
    params: {limit: 9, window: 7d}
  - id: shop.path--files--any.user
    match:
      attributes:
        domain: shop
        path: "/files/*"
        user: "?*"
        database: ""
    key: [user]
    shadow: true
    params: {limit: 7, window: 30d}
  - id: shop.path--files--any.user-007
    match:
      attributes:
        domain: shop
        path: "/files/*"
        user: "007"
        database: ""
    key: []
    replaces: [shop.path--files--any.user]
    params: {limit: unlimited}
`
	if got := string(r.YAML); got != want || r.Rules != 5 || len(r.Notes) > 0 {
		t.Errorf("%d rules\n%s%s\nwant\n%s", r.Rules, got, notes(r), want)
	}
}

// TestImportingTwiceChangesNothing: the same files, the same rules with the same
// numbers.
func TestImportingTwiceChangesNothing(t *testing.T) {
	first, _ := imported(t, shop, strings.ReplaceAll(shop, "domain: shop", "domain: other"))
	second, _ := imported(t, shop, strings.ReplaceAll(shop, "domain: shop", "domain: other"))
	if !bytes.Equal(first.YAML, second.YAML) {
		t.Error("two texts of the same files")
	}
}

// TestRequestsMeetTheRuleOfTheirNode is the semantics in examples; tools/envoydiff
// compares generated ones with that project's own code.
func TestRequestsMeetTheRuleOfTheirNode(t *testing.T) {
	_, set := imported(t, shop)
	for _, c := range []struct{ asked, want string }{
		{"database=users", "shop.database-users"},
		{"database=orders", "shop.database"},
		{"database=users user=u", ""},
		{"path=/files/a", "shop.path--files--any"},
		{"path=/files/a user=u", "shop.path--files--any.user"},
		{"path=/files/a user=007", "shop.path--files--any.user-007"},
		{"path=/file user=u", ""},
		{"user=u", ""},
		{"domain=other database=users", ""},
	} {
		attrs := map[string]string{"domain": "shop"}
		for _, a := range strings.Fields(c.asked) {
			name, value, _ := strings.Cut(a, "=")
			attrs[name] = value
		}
		var got []string
		_, matched := set.Match(rules.AttributesOf(attrs), 0, nil)
		for _, m := range matched {
			got = append(got, m.Rule.ID)
		}
		if strings.Join(got, " ") != c.want {
			t.Errorf("%s: rules %v, want %q", c.asked, got, c.want)
		}
	}
}

// TestWhatIsNotCarriedOverIsSaid with the place of its descriptor.
func TestWhatIsNotCarriedOverIsSaid(t *testing.T) {
	const head = "domain: d\ndescriptors:\n"
	for name, c := range map[string]struct{ descriptor, want string }{
		"too many": {"- {key: a, rate_limit: {unit: day, requests_per_unit: 4294967295}}", "f1:3:3: differs: 4294967295 a unit becomes 1000000000"},
		"quota":    {"- {key: a, quota_mode: true, rate_limit: {unit: day, requests_per_unit: 1}}", "f1:3:3: differs: quota_mode is shadow"},
		"replaces": {"- {key: a, shadow_mode: true, rate_limit: {unit: day, requests_per_unit: 1, replaces: [{name: x}]}}\n" +
			"- {key: b, rate_limit: {unit: day, requests_per_unit: 1, name: x}}", `f1:3:3: not carried over: replaces "x"; a rule in shadow`},
		"metric":         {"- {key: a, detailed_metric: true, value_to_metric: true}", "f1:3:3: not carried over: value_to_metric"},
		"key wildcard":   {"- {key: \"a*\", rate_limit: {unit: day, requests_per_unit: 1}}", "f1:3:3: not carried over: an attribute's name"},
		"domain":         {"- {key: domain, rate_limit: {unit: day, requests_per_unit: 1}}", "f1:3:3: not carried over: the attribute domain"},
		"twice":          {"- {key: a, descriptors: [{key: a, rate_limit: {unit: day, requests_per_unit: 1}}]}", "f1:3:26: not carried over: a request has one value"},
		"never reached":  {"- {key: a, value: \"*\"}\n- {key: a, rate_limit: {unit: day, requests_per_unit: 1}}", `f1:4:3: not carried over: no request reaches it there either: a "*" is taken first`},
		"one or two":     {"- {key: a, value: b}\n- {key: a_b, value: c}", `f1:4:3: differs: that project takes an entry a with a value that begins with "b"`},
		"endpoint":       {"- {key: endpoint, value: /a, rate_limit: {unit: day, requests_per_unit: 1}}", "f1:3:3: differs: an endpoint counts without its query"},
		"endpoint query": {"- {key: endpoint, value: \"/a?b\", rate_limit: {unit: day, requests_per_unit: 1}}", "f1:3:3: not carried over: an endpoint is compared without its query"},
		"long":           {"- {key: a, value: " + strings.Repeat("x", 600) + "}", "f1:3:3: not carried over: its key or value is too long"},
	} {
		r, _ := imported(t, head+c.descriptor+"\n")
		if got := notes(r); !strings.Contains(got, c.want) {
			t.Errorf("%s: notes\n%swant %q", name, got, c.want)
		}
	}
}

// TestNamesAreReplacedInRequests: a limit's name may be that of several, in files of their own.
func TestNamesAreReplacedInRequests(t *testing.T) {
	r, set := imported(t, `
domain: d
descriptors:
  - {key: a, rate_limit: {unit: day, requests_per_unit: 0, name: x}}
  - {key: b, rate_limit: {unlimited: true, replaces: [{name: x}, {name: y}]}}
`, "domain: d\ndescriptors:\n  - {key: c, rate_limit: {unit: day, requests_per_unit: 1, name: x}}\n")
	b := set.Rule("d.b")
	if !b.Unlimited || strings.Join(b.ReplacesInRequest, " ") != "d.a d.c" || set.Rule("d.a").Limit.Capacity != 0 || len(r.Notes) > 0 {
		t.Errorf("%+v\n%s%s", b, r.YAML, notes(r))
	}
}

// TestMistakesAreRefusedWithTheirPlace: what that project refuses, and what is no YAML.
func TestMistakesAreRefusedWithTheirPlace(t *testing.T) {
	const head = "domain: d\ndescriptors:\n"
	for text, want := range map[string]string{
		"descriptors: []\n":                                    "f1:1:1: the file has no domain",
		"domain: d\nlimits: []\n":                              `f1:2:1: the file has no field "limits"`,
		"domain: d\ndomain: e\n":                               `f1:2:1: the file has "domain" twice`,
		"domain: [d]\n":                                        "f1:1:9: expected a text, found a list",
		"domain: d\ndescriptors: 7\n":                          "f1:2:14: descriptors must be a list",
		"domain: d\n\tx: y\n":                                  "f1:2:1: a tab cannot indent YAML",
		head + "- 7\n":                                         "f1:3:3: a descriptor must be a mapping",
		head + "- {value: x}\n":                                "f1:3:3: the descriptor has no key",
		head + "- {key: a}\n- {key: a}\n":                      `f1:4:3: the descriptor "a" is there already`,
		head + "- {key: a, value: x, share_threshold: true}\n": "f1:3:3: share_threshold is for values",
		head + "- {key: a, shadow_mode: maybe}\n":              `f1:3:25: expected true or false, found "maybe"`,
		head + "- {key: a, rate_limit: {unit: fortnight, requests_per_unit: 1}}\n":                           `unit "fortnight" must be second`,
		head + "- {key: a, rate_limit: {unit: day, requests_per_unit: -1}}\n":                                "requests_per_unit must be a whole number",
		head + "- {key: a, rate_limit: {unit: day, unlimited: true}}\n":                                      "an unlimited rate_limit has no unit",
		head + "- {key: a, rate_limit: {unit: day, requests_per_unit: 1, replaces: [{}]}}\n":                 "an entry of replaces has no name",
		head + "- {key: a, rate_limit: {unit: day, requests_per_unit: 1, name: n, replaces: [{name: n}]}}\n": "the rate_limit replaces itself",
	} {
		_, err := Import([]File{{Name: "f1", Data: []byte(text)}})
		if refused := (*source.Error)(nil); !errors.As(err, &refused) || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}

// TestIDsThatWouldBeTheSameDiffer, also those that are cut.
func TestIDsThatWouldBeTheSameDiffer(t *testing.T) {
	long := strings.Repeat("x", 80)
	_, set := imported(t, `domain: d
descriptors:
  - {key: a, value: "b/c", rate_limit: {unit: day, requests_per_unit: 1}}
  - {key: a, value: "b-c", rate_limit: {unit: day, requests_per_unit: 2}}
  - {key: a, value: "`+long+`1", rate_limit: {unit: day, requests_per_unit: 3}}
  - {key: a, value: "`+long+`2", rate_limit: {unit: day, requests_per_unit: 4}}
`)
	if n := len(set.Rules()); n != 4 {
		t.Errorf("%d rules, want 4", n)
	}
}

// FuzzImport: any file is refused or becomes rules that are accepted, and the same ones
// each time.
func FuzzImport(f *testing.F) {
	f.Add(shop)
	f.Add("domain: \"a*b\"\ndescriptors:\n- {key: y, value: \"no?*\", rate_limit: {unit: day, requests_per_unit: 1}}\n- {key: y, value: \"no?x\"}\n")
	f.Fuzz(func(t *testing.T, text string) {
		r, err := Import([]File{{Name: "f", Data: []byte(text)}})
		if err != nil {
			return
		}
		if _, _, err := rules.Parse("imported", r.YAML); err != nil {
			t.Fatalf("%v\n%s", err, r.YAML)
		}
		again, err := Import([]File{{Name: "f", Data: []byte(text)}})
		if err != nil || !bytes.Equal(again.YAML, r.YAML) {
			t.Fatalf("another text of the same file (%v)", err)
		}
	})
}
