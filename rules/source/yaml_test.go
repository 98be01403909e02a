package source

import (
	"strings"
	"testing"

	"github.com/goccy/go-yaml/token"
)

// The library has been seen to pass over text that belongs to nothing. No such text
// is known for this version of it, so the guard is given what it guards against: the
// tokens of one file and the tree of another that lacks a word of it.
func TestTextThatTheParserPassesOver(t *testing.T) {
	parse := func(text string) (token.Tokens, *Node) {
		p := &Problems{file: "f"}
		root := parseYAML(p, text)
		tokens, ok := tokenize(p, text)
		if root == nil || !ok {
			t.Fatalf("%q: %v", text, p.Err())
		}
		return tokens, root
	}
	const whole = "rules: []\nwhitelist:\n  - a\n  - |\n    text\n  - b\n"
	tokens, tree := parse(whole)
	if at, lost := unread(tokens, tree); lost {
		t.Errorf("nothing is lost, but %v", at)
	}
	_, less := parse(strings.Replace(whole, "  - b\n", "", 1))
	if at, lost := unread(tokens, less); !lost || at != (Position{6, 5}) {
		t.Errorf("lost %v at %v, want 6:5", lost, at)
	}
}

// A panic of the library is a problem of the file.
func TestParserPanics(t *testing.T) {
	p := &Problems{file: "f"}
	if _, ok := parseTokens(p, token.Tokens{nil, nil}); ok {
		t.Fatal("read")
	}
	want := "f:1:1: this is not YAML that can be read; check indentation, quotes and brackets"
	if err := p.Err(); err == nil || err.Error() != want {
		t.Errorf("got %v", err)
	}
}
