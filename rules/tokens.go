package rules

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/goccy/go-yaml/scanner"
	"github.com/goccy/go-yaml/token"
)

const (
	// maxDepth bounds nesting: the deepest place of the schema is 6 levels down, and
	// the parser recurses once or more a level.
	maxDepth = 32
	// maxBlockKeys bounds the keys of one mapping written in block style; the parser
	// takes time in the square of their number. The largest mapping of the schema,
	// override, has MaxOverrides.
	maxBlockKeys = MaxOverrides + 200
	// maxTokens bounds the work and the memory of one file: MaxRules rules of seventy
	// tokens each, which is more than MaxFileBytes has room for in ordinary writing.
	maxTokens = 700_000
)

// tokenize splits the text, as far as maxTokens and as far as nothing is refused.
func tokenize(p *problems, text string) (token.Tokens, bool) {
	// The scanner splits a whole line at once, so signs are counted before it sees them. A file
	// with as many of them in quotes or comments is refused too.
	if at, tooMany := signsBeyond(text, maxTokens); tooMany {
		p.add(at, "the file has too many parts; a rules file holds at most %d words and signs", maxTokens)
		return nil, false
	}
	var s scanner.Scanner
	s.Init(text)
	var tokens token.Tokens
	check := tokenCheck{p: p, before: p.count()}
	for {
		more, err := s.Scan()
		if errors.Is(err, io.EOF) {
			return tokens, check.upTo(tokens, len(tokens)) && p.count() == check.before
		}
		tokens.Add(more...)
		if len(tokens) > maxTokens {
			p.add(place(tokens[maxTokens]), "the file has too many parts; a rules file holds at most %d words and signs", maxTokens)
			return nil, false
		}
		// What a token is depends on the next one.
		if !check.upTo(tokens, len(tokens)-1) {
			return nil, false
		}
	}
}

// signsBeyond finds the place of the sign after the first most ones: of what begins a token, or ends
// one, and of lines with anything in them.
func signsBeyond(text string, most int) (at position, tooMany bool) {
	line, start, quotes := 1, 0, 0
	for i := range len(text) {
		sign := false
		switch text[i] {
		case '\n':
			sign = i > start
		case '[', ']', '{', '}', ',':
			sign = true
		case '-', '?', ':', '&', '*', '!', '|', '>':
			sign = i+1 == len(text) || text[i+1] <= ' '
		case '\'', '"':
			quotes++
			sign = quotes%2 == 0
		}
		if sign {
			most--
		}
		if most < 0 {
			return position{line, utf8.RuneCountInString(text[start:i]) + 1}, true
		}
		if text[i] == '\n' {
			line, start = line+1, i+1
		}
	}
	return position{}, false
}

// tokenCheck refuses, before anything recurses or expands, what a rules file never
// needs: anchors and aliases (with which a small file can become a huge one), tags,
// several documents, and nesting or mappings beyond reason.
type tokenCheck struct {
	p       *problems
	before  int // problems of the text before
	checked int // tokens
	shape   shape

	documents      int
	content, ended bool
}

// upTo checks tokens up to an index, as far as it makes sense to go on.
func (c *tokenCheck) upTo(tokens token.Tokens, end int) bool {
	for ; c.checked < end; c.checked++ {
		if !c.check(tokens, c.checked) || c.p.count() >= maxCollected {
			return false
		}
	}
	return true
}

// check looks at the token at index i; false ends the reading.
func (c *tokenCheck) check(tokens token.Tokens, i int) bool {
	t := tokens[i]
	at := place(t)
	if why := refusedToken(t); why != "" {
		c.p.add(at, "%s", why)
		return t.Type != token.InvalidType
	}
	switch t.Type {
	case token.CommentType:
		return true
	case token.DocumentHeaderType:
		c.documents++
		if c.documents > 1 || c.content {
			c.p.add(at, "a rules file is one document; remove this --- and what belongs to another document")
			return false
		}
		return true
	case token.DocumentEndType:
		c.ended = true
		return true
	}
	if c.ended {
		// The parser would pass over it in silence.
		c.p.add(at, "there is more after the end of the document (...); remove the three dots or what follows")
		return false
	}
	c.content = true
	if tabBeside(tokens, i) {
		c.p.add(at, "a tab stands here or before it; use spaces, or quotes if it belongs to a text")
		return true
	}
	if why := c.shape.follow(t, tokens, i); why != "" {
		c.p.add(at, "%s", why)
		return false
	}
	return true
}

// tabBeside tells whether a tab stands in a text without quotes, which the scanner would
// leave out, or beside a token, so that it would miscount columns.
func tabBeside(tokens token.Tokens, i int) bool {
	t := tokens[i]
	if !strings.Contains(t.Origin, "\t") || i > 0 && isBlockSign(tokens[i-1]) || i > 1 && isBlockSign(tokens[i-2]) {
		return false // or the text of a block scalar, in which tabs are text
	}
	origin := strings.TrimRight(t.Origin, " \t\r\n")
	after, _, newLine := strings.Cut(t.Origin[len(origin):], "\n")
	body := strings.TrimLeft(origin, " \t\r\n")
	before := origin[:len(origin)-len(body)]
	before = before[strings.LastIndexByte(before, '\n')+1:]
	quoted := t.Type == token.SingleQuoteType || t.Type == token.DoubleQuoteType
	ends := newLine || i+1 == len(tokens) || tokens[i+1].Type == token.CommentType
	return strings.Contains(before, "\t") || !quoted && strings.Contains(body, "\t") || !ends && strings.Contains(after, "\t")
}

func isBlockSign(t *token.Token) bool {
	return t.Type == token.LiteralType || t.Type == token.FoldedType
}

// refusedToken says why a token is not accepted, "" if it is.
func refusedToken(t *token.Token) string {
	switch t.Type {
	case token.InvalidType:
		return "not valid YAML: " + t.Error
	case token.AnchorType:
		return "YAML anchors (&) are not accepted; write the value out, and quote a text that begins with &"
	case token.AliasType:
		return "YAML aliases (*) are not accepted; write the value out, and quote a pattern that begins with *"
	case token.MergeKeyType:
		return "YAML merge keys (<<) are not accepted; use defaults or tiers to share settings"
	case token.TagType:
		return "YAML tags (!) are not accepted; remove the tag, and quote a text that begins with !"
	case token.DirectiveType:
		return "YAML directives (%) are not accepted; remove this line"
	case token.MappingKeyType:
		return "explicit keys (?) are not accepted; write \"key: value\""
	}
	return ""
}

// shape follows nesting through the tokens. The zero value is ready for use.
type shape struct {
	flow   int     // open brackets and braces
	blocks []block // open block collections, outermost first
}

type block struct {
	column int
	keys   int // 0 for a list
}

// follow takes in the token at index i and says what is too large, "" if nothing.
func (s *shape) follow(t *token.Token, all token.Tokens, i int) string {
	switch t.Type {
	case token.MappingStartType, token.SequenceStartType:
		s.flow++
	case token.MappingEndType, token.SequenceEndType:
		s.flow = max(s.flow-1, 0)
	case token.CollectEntryType:
		if i > 0 && (all[i-1].Type == token.CollectEntryType || all[i-1].Type == token.SequenceStartType || all[i-1].Type == token.MappingStartType) {
			return "there is nothing before this comma; remove it"
		}
	case token.SequenceEntryType:
		s.dash(t.Position.Column)
	default:
		isKey := i+1 < len(all) && all[i+1].Type == token.MappingValueType
		if s.flow == 0 && isKey && s.key(t.Position.Column) > maxBlockKeys {
			return fmt.Sprintf("this mapping has too many keys; a mapping of a rules file holds at most %d", maxBlockKeys)
		}
	}
	if s.flow+len(s.blocks) > maxDepth {
		return "nested too deeply; no setting of a rules file is more than 6 levels down"
	}
	return ""
}

func (s *shape) dash(column int) {
	if s.flow > 0 {
		return
	}
	s.closeAbove(column)
	if n := len(s.blocks); n == 0 || s.blocks[n-1].column < column || s.blocks[n-1].keys > 0 {
		s.blocks = append(s.blocks, block{column: column})
	}
}

// key counts one more key at this column and returns the mapping's count.
func (s *shape) key(column int) int {
	s.closeAbove(column)
	// A list may stand at the column of the key that holds it.
	for n := len(s.blocks); n > 0 && s.blocks[n-1].column == column && s.blocks[n-1].keys == 0; n-- {
		s.blocks = s.blocks[:n-1]
	}
	if n := len(s.blocks); n == 0 || s.blocks[n-1].column < column {
		s.blocks = append(s.blocks, block{column: column})
	}
	s.blocks[len(s.blocks)-1].keys++
	return s.blocks[len(s.blocks)-1].keys
}

func (s *shape) closeAbove(column int) {
	for n := len(s.blocks); n > 0 && s.blocks[n-1].column > column; n-- {
		s.blocks = s.blocks[:n-1]
	}
}
