package rules

import (
	"errors"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"
)

// parseYAML converts the text to nodes. It returns nil after it has reported a problem. An empty
// document is a null node.
func parseYAML(p *problems, text string) *node {
	tokens, ok := tokenize(p, text)
	if !ok {
		return nil
	}
	return parseTree(p, tokens)
}

// parseTree is parseYAML for tokens.
func parseTree(p *problems, tokens token.Tokens) *node {
	file, ok := parseTokens(p, tokens)
	if !ok {
		return nil
	}
	if len(file.Docs) == 0 || file.Docs[0].Body == nil {
		return &node{at: position{1, 1}}
	}
	root := convert(p, file.Docs[0].Body, position{1, 1})
	if at, lost := unread(tokens, root); lost {
		p.add(at, "not valid YAML: this does not belong to anything; check indentation and the lines before")
		return nil
	}
	return root
}

// unread finds text that the parser ignored silently, because a rule must never vanish from a file.
// It returns the first scalar of the tokens that is neither a value nor a key of the tree.
func unread(tokens token.Tokens, root *node) (at position, lost bool) {
	read := make(map[position]bool, len(tokens)/2)
	root.eachScalar(func(at position) { read[at] = true })
	block := false // the text of a block scalar (| or >) follows; its place is that of the sign
	for _, t := range tokens {
		switch t.Type {
		case token.LiteralType, token.FoldedType:
			block = true
		case token.StringType, token.SingleQuoteType, token.DoubleQuoteType, token.BoolType, token.IntegerType, token.FloatType:
			if !block && !read[place(t)] {
				return place(t), true
			}
			block = false
		}
	}
	return position{}, false
}

// parseTokens runs the library's parser. It reports a panic of the parser as a problem of the file,
// because a daemon must survive any text.
func parseTokens(p *problems, tokens token.Tokens) (file *ast.File, ok bool) {
	defer func() {
		if r := recover(); r != nil {
			p.add(position{1, 1}, "this is not YAML that can be read; check indentation, quotes and brackets")
			file, ok = nil, false
		}
	}()
	// The schema reports duplicate keys, and can report all of them.
	file, err := parser.Parse(tokens, 0, parser.AllowDuplicateMapKey())
	if err != nil {
		reportSyntax(p, err)
		return nil, false
	}
	return file, true
}

func reportSyntax(p *problems, err error) {
	var syntax yaml.Error
	if !errors.As(err, &syntax) {
		p.add(position{1, 1}, "not valid YAML: %v", err)
		return
	}
	// The Error method of syntax would draw the surrounding text, in time and memory that grow with
	// the square of a long line.
	at := position{1, 1}
	if t := syntax.GetToken(); t != nil {
		at = place(t)
	}
	p.add(at, "not valid YAML: %s", syntax.GetMessage())
}

func place(t *token.Token) position {
	if t == nil || t.Position == nil {
		return position{}
	}
	return position{line: t.Position.Line, column: t.Position.Column}
}

// convert converts the library's tree to nodes. parent is the place to name for a value without its
// own, such as an empty one.
func convert(p *problems, n ast.Node, parent position) *node {
	out := &node{at: parent}
	if t := n.GetToken(); t != nil && t.Position != nil && n.Type() != ast.NullType {
		out.at = place(t)
	}
	switch n := n.(type) {
	case *ast.MappingNode:
		convertMapping(p, n, out)
	case *ast.SequenceNode:
		out.kind = kindSequence
		out.at = place(n.Start)
		for i, item := range n.Values {
			at := out.at
			if i < len(n.Entries) {
				at = place(n.Entries[i].Start) // the dash, for an empty item
			}
			out.items = append(out.items, convert(p, item, at))
		}
	case *ast.StringNode:
		out.kind, out.text = stringKind(n), n.Value
	case *ast.LiteralNode:
		out.kind, out.text = kindString, n.Value.Value
	case *ast.IntegerNode, *ast.FloatNode, *ast.InfinityNode, *ast.NanNode:
		out.kind, out.text = kindNumber, n.GetToken().Value
	case *ast.BoolNode:
		out.kind, out.text = kindBool, n.GetToken().Value
	case *ast.NullNode:
		out.kind = kindNull
	default:
		p.add(out.at, "%s is not accepted in a rules file", n.Type())
	}
	return out
}

// stringKind recognises numbers that the library takes for texts: those with an exponent but no
// fraction (1e3), and integers that no machine type holds.
func stringKind(n *ast.StringNode) kind {
	if n.Token.Type != token.StringType {
		return kindString // quoted
	}
	if _, why := parseDecimal(n.Value); why == "" || len(n.Value) > maxNumberText && allDigits(n.Value) {
		return kindNumber
	}
	return kindString
}

func convertMapping(p *problems, n *ast.MappingNode, out *node) {
	out.kind = kindMapping
	for i, entry := range n.Values {
		key := entry.Key.GetToken()
		at := place(key)
		if i == 0 && !n.IsFlowStyle {
			// The library places a block mapping at its first colon.
			out.at = at
		}
		out.fields = append(out.fields, field{at: at, name: key.Value, value: convert(p, entry.Value, at)})
	}
}
