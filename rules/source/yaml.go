package source

import (
	"errors"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"
)

// Read returns the root of the YAML text in data, or nil if it cannot be read; the problems say why.
func (p *Problems) Read(data []byte) *Node {
	text, ok := cleanText(p, data)
	if !ok {
		return nil
	}
	return parseYAML(p, text)
}

// parseYAML converts the text to nodes. It returns nil after it has reported a problem. An empty
// document is a null node.
func parseYAML(p *Problems, text string) *Node {
	tokens, ok := tokenize(p, text)
	if !ok {
		return nil
	}
	return parseTree(p, tokens)
}

// parseTree is parseYAML for tokens.
func parseTree(p *Problems, tokens token.Tokens) *Node {
	file, ok := parseTokens(p, tokens)
	if !ok {
		return nil
	}
	if len(file.Docs) == 0 || file.Docs[0].Body == nil {
		return &Node{At: Position{1, 1}}
	}
	root := convert(p, file.Docs[0].Body, Position{1, 1})
	if at, lost := unread(tokens, root); lost {
		p.Add(at, "not valid YAML: this does not belong to anything; check indentation and the lines before")
		return nil
	}
	return root
}

// unread finds text that the parser ignored silently, because a rule must never vanish from a file.
// It returns the first scalar of the tokens that is neither a value nor a key of the tree.
func unread(tokens token.Tokens, root *Node) (at Position, lost bool) {
	read := make(map[Position]bool, len(tokens)/2)
	root.eachScalar(func(at Position) { read[at] = true })
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
	return Position{}, false
}

// parseTokens runs the library's parser. It reports a panic of the parser as a problem of the file,
// because a daemon must survive any text.
func parseTokens(p *Problems, tokens token.Tokens) (file *ast.File, ok bool) {
	defer func() {
		if r := recover(); r != nil {
			p.Add(Position{1, 1}, "this is not YAML that can be read; check indentation, quotes and brackets")
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

func reportSyntax(p *Problems, err error) {
	var syntax yaml.Error
	if !errors.As(err, &syntax) {
		p.Add(Position{1, 1}, "not valid YAML: %v", err)
		return
	}
	// The Error method of syntax would draw the surrounding text, in time and memory that grow with
	// the square of a long line.
	at := Position{1, 1}
	if t := syntax.GetToken(); t != nil {
		at = place(t)
	}
	p.Add(at, "not valid YAML: %s", syntax.GetMessage())
}

func place(t *token.Token) Position {
	if t == nil || t.Position == nil {
		return Position{}
	}
	return Position{Line: t.Position.Line, column: t.Position.Column}
}

// convert converts the library's tree to nodes. parent is the place to name for a value without its
// own, such as an empty one.
func convert(p *Problems, n ast.Node, parent Position) *Node {
	out := &Node{At: parent}
	if t := n.GetToken(); t != nil && t.Position != nil && n.Type() != ast.NullType {
		out.At = place(t)
	}
	switch n := n.(type) {
	case *ast.MappingNode:
		convertMapping(p, n, out)
	case *ast.SequenceNode:
		out.Kind = KindSequence
		out.At = place(n.Start)
		for i, item := range n.Values {
			at := Position{out.At.Line, out.At.column + 1} // behind the bracket, for the first item of a flow list
			if i < len(n.Entries) && n.Entries[i].Start != nil {
				at = place(n.Entries[i].Start) // the dash or the comma, for an empty item
			}
			out.Items = append(out.Items, convert(p, item, at))
		}
	case *ast.StringNode:
		out.Kind, out.Text = stringKind(n), n.Value
	case *ast.LiteralNode:
		out.Kind, out.Text = KindString, n.Value.Value
	case *ast.IntegerNode, *ast.FloatNode, *ast.InfinityNode, *ast.NanNode:
		out.Kind, out.Text = KindNumber, n.GetToken().Value
	case *ast.BoolNode:
		out.Kind, out.Text = KindBool, n.GetToken().Value
	case *ast.NullNode:
		out.Kind = KindNull
	default:
		p.Add(out.At, "%s is not accepted in a rules file", n.Type())
	}
	return out
}

// stringKind recognises numbers that the library takes for texts: those with an exponent but no
// fraction (1e3), and integers that no machine type holds.
func stringKind(n *ast.StringNode) Kind {
	if n.Token.Type != token.StringType {
		return KindString // quoted
	}
	if _, why := ParseDecimal(n.Value); why == "" || len(n.Value) > MaxNumberText && AllDigits(n.Value) {
		return KindNumber
	}
	return KindString
}

func convertMapping(p *Problems, n *ast.MappingNode, out *Node) {
	out.Kind = KindMapping
	for i, entry := range n.Values {
		key := entry.Key.GetToken()
		at := place(key)
		if i == 0 && !n.IsFlowStyle {
			// The library places a block mapping at its first colon.
			out.At = at
		}
		out.Fields = append(out.Fields, Field{At: at, Name: key.Value, Value: convert(p, entry.Value, at)})
	}
}
