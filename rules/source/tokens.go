package source

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
	// maxDepth caps nesting. The deepest place of the schema is 6 levels down, and the parser
	// recurses at least once a level.
	maxDepth = 32
	// maxBlockKeys caps the keys of one mapping in block style, because the parser's time grows
	// with the square of their number. The largest mapping of the schema, override, has
	// 1,000 overrides.
	maxBlockKeys = 1_200
	// maxTokens caps the work and the memory of one file: MaxRules rules of seventy tokens each,
	// which is more than ordinary writing fits into MaxFileBytes.
	maxTokens = 700_000
)

// tokenize splits the text. It stops at maxTokens, or at a token that ends the reading.
func tokenize(p *Problems, text string) (token.Tokens, bool) {
	// The scanner splits a whole line at once, so the signs are counted before. A file with too
	// many signs in quotes or comments is refused too.
	if at, tooMany := signsBeyond(text, maxTokens); tooMany {
		p.Add(at, "the file has too many parts; a rules file holds at most %d words and signs", maxTokens)
		return nil, false
	}
	var s scanner.Scanner
	s.Init(text)
	var tokens token.Tokens
	check := tokenCheck{p: p, before: p.Count()}
	for {
		more, err := s.Scan()
		if errors.Is(err, io.EOF) {
			return tokens, check.upTo(tokens, len(tokens)) && p.Count() == check.before
		}
		tokens.Add(more...)
		if len(tokens) > maxTokens {
			p.Add(place(tokens[maxTokens]), "the file has too many parts; a rules file holds at most %d words and signs", maxTokens)
			return nil, false
		}
		// The next token determines the type of a token.
		if !check.upTo(tokens, len(tokens)-1) {
			return nil, false
		}
	}
}

// signsBeyond returns the place of the sign after the first most signs. A sign is a character that
// begins or ends a token, or a line that is not empty.
func signsBeyond(text string, most int) (at Position, tooMany bool) {
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
			return Position{line, utf8.RuneCountInString(text[start:i]) + 1}, true
		}
		if text[i] == '\n' {
			line, start = line+1, i+1
		}
	}
	return Position{}, false
}

// tokenCheck refuses what a rules file never needs, before anything recurses or expands: anchors
// and aliases (with which a small file can become a huge one), tags, several documents, and
// excessive nesting or mappings.
type tokenCheck struct {
	p       *Problems
	before  int // number of problems before this check
	checked int // number of tokens
	shape   shape

	documents      int
	content, ended bool
}

// upTo checks tokens up to an index. It returns false if reading should end.
func (c *tokenCheck) upTo(tokens token.Tokens, end int) bool {
	for ; c.checked < end; c.checked++ {
		if !c.check(tokens, c.checked) || c.p.Count() >= MaxCollected {
			return false
		}
	}
	return true
}

// check checks the token at index i. It returns false if reading should end.
func (c *tokenCheck) check(tokens token.Tokens, i int) bool {
	t := tokens[i]
	at := place(t)
	if why := refusedToken(t); why != "" {
		c.p.Add(at, "%s", why)
		return t.Type != token.InvalidType
	}
	switch t.Type {
	case token.CommentType:
		return true
	case token.DocumentHeaderType:
		c.documents++
		if c.documents > 1 || c.content {
			c.p.Add(at, "a rules file is one document; remove this --- and what belongs to another document")
			return false
		}
		return true
	case token.DocumentEndType:
		c.ended = true
		return true
	}
	if c.ended {
		// The parser would ignore it silently.
		c.p.Add(at, "there is more after the end of the document (...); remove the three dots or what follows")
		return false
	}
	c.content = true
	if tabBeside(tokens, i) {
		c.p.Add(at, "a tab stands here or before it; use spaces, or quotes if it belongs to a text")
		return true
	}
	if why := c.shape.follow(t, tokens, i); why != "" {
		c.p.Add(at, "%s", why)
		return false
	}
	return true
}

// tabBeside reports whether there is a tab in a text without quotes, where the scanner would leave
// it out, or beside a token, where the scanner would miscount columns.
func tabBeside(tokens token.Tokens, i int) bool {
	t := tokens[i]
	if !strings.Contains(t.Origin, "\t") || i > 0 && isBlockSign(tokens[i-1]) || i > 1 && isBlockSign(tokens[i-2]) {
		return false // the latter is the text of a block scalar, in which tabs are text
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

// refusedToken returns why a token is refused, or "".
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

// shape follows the nesting of the tokens. The zero value is ready for use.
type shape struct {
	flow   int     // open brackets and braces
	blocks []block // open block collections, outermost first
}

type block struct {
	column int
	keys   int // 0 for a list
}

// follow processes the token at index i. It returns what is too large, or "".
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

// key counts another key at this column and returns the mapping's count.
func (s *shape) key(column int) int {
	s.closeAbove(column)
	// A list may be at the same column as the key that holds it.
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
