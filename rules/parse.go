package rules

import (
	"aliquot/rules/document"
	"aliquot/rules/source"
)

// Parse reads a rules file. file is its name in messages. It returns a Set with at most MaxProblems
// warnings, or an *Error with every problem of the file. It refuses the whole file for one problem.
// The result depends only on the arguments.
func Parse(file string, data []byte) (*Set, []Warning, error) {
	d := &draft{Reader: source.NewReader(file, document.PlaceOf)}
	root := d.Read(data)
	if root == nil {
		return nil, nil, d.Err()
	}
	set := d.compile(document.Read(d.Reader, root))
	if err := d.Err(); err != nil {
		return nil, nil, err
	}
	return set, d.FirstWarnings(), nil
}

// draft is a set on its way from a document, with the problems found so far.
type draft struct{ *source.Reader }
