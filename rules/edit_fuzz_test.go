package rules

import (
	"bytes"
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"
)

// FuzzEdit: an edit of a valid file gives a valid file that says what it said before
// and the change, or it is refused; an entry that is put on a list and taken off it
// again leaves no trace.
func FuzzEdit(f *testing.F) {
	for _, text := range []string{editFile, matchFile, explainFile, "rules: []", "blacklist:\n- a\nrules: []\r\n", "{\"rules\": [], \"whitelist\": [\"x\",],}",
		"rules: []\ntiers: {t: {params: {limit: 1}}}\nwhitelist:\n  - >\n    a\n  - |-\n    b\n    c\n", "---\nrules:\n- {id: a, params: {limit: 1, window: 1}}\n...\n"} {
		f.Add([]byte(text), "new", uint8(0))
		f.Add([]byte(text), "sk_\"*", uint8(3))
	}
	f.Fuzz(func(t *testing.T, text []byte, pattern string, which uint8) {
		before, _, err := Parse("f", text)
		if err != nil {
			return
		}
		rule := "none"
		if len(before.Rules()) > 0 {
			rule = before.Rules()[int(which)%len(before.Rules())].ID
		}
		entry := ListEntry{pattern, Note{Reason: pattern, UntilMS: in2030() + int64(which)}}
		for name, edit := range map[string]func() ([]byte, error){
			"block":  func() ([]byte, error) { return Block(text, entry, before2020) },
			"allow":  func() ([]byte, error) { return Allow(text, entry, before2020) },
			"unlist": func() ([]byte, error) { return Unlist(text, pattern, before2020) },
			"override": func() ([]byte, error) {
				return SetOverride(text, rule, pattern, ParamsText{Limit: 7, Window: time.Hour}, entry.Note, before2020)
			},
			"remove": func() ([]byte, error) { return RemoveOverride(text, rule, pattern, before2020) },
		} {
			after, err := edit()
			if errors.Is(err, errNotInPlace) {
				t.Fatalf("%s: %v\n%s", name, err, text)
			}
			if err == nil {
				checkEdit(t, name, before, text, after, entry, rule)
			}
		}
	})
}

func checkEdit(t *testing.T, name string, before *Set, text, result []byte, entry ListEntry, rule string) {
	after, _, err := Parse("f", result)
	if err != nil {
		t.Fatalf("%s: %v\n%s", name, err, result)
	}
	white, black := stay(before.Whitelist(), name, entry.Pattern), stay(before.Blacklist(), name, entry.Pattern)
	switch name {
	case "block":
		black = append(black, entry)
	case "allow":
		white = append(white, entry)
	}
	if !slices.Equal(white, after.Whitelist()) || !slices.Equal(black, after.Blacklist()) {
		t.Fatalf("%s: lists %v %v, want %v %v\n%s", name, after.Whitelist(), after.Blacklist(), white, black, result)
	}
	if len(before.Rules()) != len(after.Rules()) {
		t.Fatalf("%s: %d rules of %d\n%s", name, len(after.Rules()), len(before.Rules()), result)
	}
	for i, r := range after.Rules() {
		was := overridesOf(before.Rules()[i], true)
		if r.ID == rule && (name == "override" || name == "remove") {
			delete(was, entry.Pattern)
			if o := overridesOf(r, false)[entry.Pattern]; name == "override" && o.Note != entry.Note {
				t.Fatalf("override %+v, want %+v\n%s", o, entry, result)
			}
		}
		is := overridesOf(r, false)
		if r.ID == rule && name == "override" {
			delete(is, entry.Pattern)
		}
		if !maps.Equal(was, is) || r.Limit != before.Rules()[i].Limit {
			t.Fatalf("%s: rule %s: %v, want %v\n%s", name, r.ID, is, was, result)
		}
	}
	for _, comment := range comments(text) {
		// The comments of what was taken out may have gone with it.
		if taken := len(text) > len(result); !taken && name != "remove" && !bytes.Contains(result, []byte(comment)) && isKept(before, name, entry.Pattern) {
			t.Fatalf("%s: comment %q is gone\n%s", name, comment, result)
		}
	}
}

// stay are the entries that neither the edit nor the end of their time takes off.
func stay(entries []ListEntry, name, pattern string) []ListEntry {
	return slices.DeleteFunc(slices.Clone(entries), func(e ListEntry) bool {
		listed := name == "block" || name == "allow" || name == "unlist"
		return !e.Holds(before2020) || listed && e.Pattern == pattern
	})
}

func overridesOf(r *Rule, holding bool) map[string]Override {
	out := map[string]Override{}
	for _, o := range r.Overrides() {
		if !holding || o.Holds(before2020) {
			out[o.Pattern] = o
		}
	}
	return out
}

// isKept tells whether an edit takes nothing out of a file.
func isKept(before *Set, name, pattern string) bool {
	ends := func(e ListEntry) bool { return !e.Holds(before2020) || e.Pattern == pattern }
	if slices.ContainsFunc(before.Whitelist(), ends) || slices.ContainsFunc(before.Blacklist(), ends) {
		return false
	}
	for _, r := range before.Rules() {
		for _, o := range r.Overrides() {
			if !o.Holds(before2020) || o.Pattern == pattern {
				return false
			}
		}
	}
	return true
}

// comments are the lines of a text that are nothing else.
func comments(text []byte) []string {
	var out []string
	for line := range strings.Lines(string(text)) {
		if line = strings.TrimSpace(line); strings.HasPrefix(line, "#") && !strings.ContainsAny(line, "\"'\r") {
			out = append(out, line)
		}
	}
	return out
}

// What is put on a list and taken off it again leaves the file as it was.
func TestEditsUndoEachOther(t *testing.T) {
	for _, newline := range []string{"\n", "\r\n"} {
		text := []byte(strings.ReplaceAll(editFile, "\n", newline))
		blocked, err := Block(text, ListEntry{Pattern: "new"}, before2020)
		if err != nil {
			t.Fatal(err)
		}
		back, err := Unlist(blocked, "new", before2020)
		if err != nil || !bytes.Equal(back, text) {
			t.Errorf("%v\n%s", err, back)
		}
		changed, err := SetOverride(text, "orders", "new", ParamsText{Limit: 3}, Note{}, before2020)
		if err != nil {
			t.Fatal(err)
		}
		back, err = RemoveOverride(changed, "orders", "new", before2020)
		if err != nil || !bytes.Equal(back, text) {
			t.Errorf("%v\n%s", err, back)
		}
	}
}
