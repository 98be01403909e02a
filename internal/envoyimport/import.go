package envoyimport

import (
	"cmp"
	"fmt"
	"slices"

	"aliquot/rules"
	"aliquot/rules/source"
)

// Result is a rules file and what there is to know about it.
type Result struct {
	YAML  []byte
	Rules int
	// Notes say what was not carried over and what differs, each with the place of its
	// descriptor, in the order of the files.
	Notes []source.Problem
}

// domainRules are the rules of one domain.
type domainRules struct {
	domain string
	rules  []*rule
}

// Import turns configuration files into one rules file, which rules.Parse accepts. Files
// of the same domain are taken together. The same files give the same text. The error is
// a *rules.Error for what envoyproxy/ratelimit would refuse as well or what is not
// YAML that can be read, with places in the files; any other error says that the rules
// would be too much for one file.
func Import(files []File) (Result, error) {
	domains, err := read(files)
	if err != nil {
		return Result{}, err
	}
	c := &converter{ids: make(ids), of: make(map[*node]*rule)}
	var all []domainRules
	for _, d := range domains {
		from := len(c.rules)
		c.convert(d)
		all = append(all, domainRules{d.value, c.rules[from:]})
	}
	order := make(map[string]int, len(files))
	for i, f := range files {
		order[f.Name] = i
	}
	slices.SortStableFunc(c.notes, func(a, b source.Problem) int {
		return cmp.Or(cmp.Compare(order[a.File], order[b.File]), cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
	out := Result{YAML: write(all), Rules: len(c.rules), Notes: c.notes}
	if _, _, err := rules.Parse("imported rules", out.YAML); err != nil {
		return Result{}, fmt.Errorf("the rules that these files become are not accepted: %v", err)
	}
	return out, nil
}
