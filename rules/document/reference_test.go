package document_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"aliquot/rules"
	"aliquot/rules/document"
)

// fieldNames are all fields that a rules file can have, sorted.
func fieldNames() []string {
	var names []string
	for _, s := range document.Sections() {
		for _, f := range s.Fields {
			names = append(names, f.Name)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// TestTheReferenceHasEveryField looks in the sources for the names of fields: those in a schema, and
// those that are added to one.
func TestTheReferenceHasEveryField(t *testing.T) {
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	var read []string
	name := func(e ast.Expr) {
		if text, ok := e.(*ast.BasicLit); ok && text.Kind == token.STRING {
			unquoted, err := strconv.Unquote(text.Value)
			if err != nil {
				t.Fatal(err)
			}
			read = append(read, unquoted)
		}
	}
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(parsed, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.CompositeLit:
				if of, ok := n.Type.(*ast.SelectorExpr); ok && of.Sel.Name == "Schema" {
					for _, element := range n.Elts {
						name(element.(*ast.KeyValueExpr).Key)
					}
				}
			case *ast.IndexExpr:
				if of, ok := n.X.(*ast.Ident); ok && of.Name == "known" {
					name(n.Index)
				}
			}
			return true
		})
	}
	slices.Sort(read)
	if read = slices.Compact(read); !slices.Equal(read, fieldNames()) {
		t.Errorf("the sources read the fields\n%q\nand Sections describes\n%q", read, fieldNames())
	}
}

// places has a file for each section, with %s where its fields are.
var places = map[string][]string{
	"The file":                {"{%s}"},
	"rules":                   {"rules: [{%s}]"},
	"Settings":                {"defaults: {%s}", "tiers: {a: {%s}}", "rules: [{%s}]"},
	"params":                  {"defaults: {params: {%s}}", "rules: [{override: {a: {%s}}}]"},
	"match":                   {"rules: [{match: {%s}}]", "tiers: {a: {match: {%s}}}"},
	"A value of an attribute": {"rules: [{match: {attributes: {a: {%s}}}}]"},
	"tiers":                   {"tiers: {a: {%s}}"},
	"cool_down":               {"defaults: {cool_down: {%s}}"},
	"auto_block":              {"defaults: {auto_block: {%s}}"},
	"override":                {"rules: [{override: {a: {%s}}}]"},
	"whitelist and blacklist": {"whitelist: [{%s}]", "blacklist: [{%s}]"},
}

// TestTheReferenceHasEachFieldInItsPlace gives every field to every mapping: Parse knows exactly those
// that the sections say.
func TestTheReferenceHasEachFieldInItsPlace(t *testing.T) {
	documented := map[string][]string{} // by place
	for _, s := range document.Sections() {
		if len(places[s.Name]) == 0 {
			t.Errorf("the test has no file with the section %q", s.Name)
		}
		for _, place := range places[s.Name] {
			for _, f := range s.Fields {
				documented[place] = append(documented[place], f.Name)
			}
		}
	}
	for place, fields := range documented {
		for _, name := range fieldNames() {
			_, _, err := rules.Parse("f", fmt.Appendf(nil, place, name+": 1"))
			if err == nil {
				t.Errorf(place+": accepted", name+": 1")
				continue
			}
			known := !strings.Contains(err.Error(), fmt.Sprintf("unknown field %q", name))
			if known != slices.Contains(fields, name) {
				t.Errorf(place+": known is %v: %v", name, known, err)
			}
		}
	}
}

// TestTheReferenceNamesTheDefaults compares them with those in force.
func TestTheReferenceNamesTheDefaults(t *testing.T) {
	set, _, err := rules.Parse("f", []byte("rules: [{id: a, params: {limit: 5, window: 1}, cool_down: true, auto_block: true}]"))
	if err != nil {
		t.Fatal(err)
	}
	r := set.Rule("a")
	want := map[string]string{
		"algorithm": r.Algorithm, "mode": map[bool]string{false: document.ModeMeter, true: document.ModeQueue}[r.Queue], "unit": r.Unit,
		"key": "[" + strings.Join(r.Key, ", ") + "]", "enforcement": r.Enforcement, "placement": r.Placement,
		"on_redis_failure": r.OnRedisFailure, "local_cache": strconv.FormatBool(r.LocalCache),
		"overrun":       map[bool]string{false: document.OverrunDeny, true: document.OverrunDebt}[r.Debt],
		"request_limit": map[bool]string{false: document.RequestLimitDeny, true: document.RequestLimitAllow}[r.RequestLimit],
		"version":       strconv.FormatInt(r.Version, 10), "most": document.Duration(r.CoolDown.Most),
		"within": document.Duration(r.AutoBlock.Within), "for": document.Duration(r.AutoBlock.For),
	}
	for _, s := range document.Sections() {
		for _, f := range s.Fields {
			if is, ok := want[f.Name]; ok && f.Default != is {
				t.Errorf("%s: the reference says %q, the default is %q", f.Name, f.Default, is)
			}
			if !strings.HasSuffix(f.Text, ".") || f.Type == "" {
				t.Errorf("%s: %q, %q", f.Name, f.Type, f.Text)
			}
		}
	}
}
