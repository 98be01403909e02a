package envoyimport

import (
	"slices"
	"strconv"
	"strings"

	"aliquot/rules/source"
)

// File is one configuration file; Name is what messages call it.
type File struct {
	Name string
	Data []byte
}

// node is one configured descriptor, or a domain.
type node struct {
	file         string
	line, column int
	key, value   string
	limit        *rateLimit // nil: none
	shadow       bool
	quota        bool
	share        bool
	metrics      []string // fields set that are about metrics only
	children     []*node
}

// rateLimit is what a node allows.
type rateLimit struct {
	requests  uint32 // a unit
	window    string // of a rules file; "" if unlimited
	unlimited bool
	name      string
	replaces  []string
}

// windows are the units, which that project makes of seconds: a month has 30 days and a
// year 365.
var windows = map[string]string{
	"SECOND": "1s", "MINUTE": "1m", "HOUR": "1h", "DAY": "1d", "WEEK": "7d", "MONTH": "30d", "YEAR": "365d",
}

const unitNames = "second, minute, hour, day, week, month or year"

// reader reads one file and collects what that project would refuse it for.
type reader struct {
	file  string
	found []source.Problem
}

func (r *reader) refuse(line, column int, message string) {
	r.found = append(r.found, source.Problem{File: r.file, Line: line, Column: column, Message: message})
}

// fields calls the reader of each field of a mapping, and refuses what has none.
func (r *reader) fields(v *source.Value, what string, known map[string]func(*source.Value)) {
	if v.Kind() != "a mapping" {
		r.refuse(v.Line, v.Column, what+" must be a mapping, not "+v.Kind())
		return
	}
	seen := make(map[string]bool, len(v.Fields))
	for _, f := range v.Fields {
		read := known[f.Name]
		switch {
		case seen[f.Name]:
			r.refuse(f.Line, f.Column, what+" has "+strconv.Quote(f.Name)+" twice; remove one")
		case read == nil:
			r.refuse(f.Line, f.Column, what+" has no field "+strconv.Quote(f.Name)+" in envoyproxy/ratelimit; remove it")
		default:
			read(f.Value)
		}
		seen[f.Name] = true
	}
}

func (r *reader) text(into *string) func(*source.Value) {
	return func(v *source.Value) {
		switch v.Kind() {
		case "a mapping", "a list":
			r.refuse(v.Line, v.Column, "expected a text, found "+v.Kind())
		default:
			*into = v.Text
		}
	}
}

func (r *reader) flag(into *bool) func(*source.Value) {
	return func(v *source.Value) {
		switch strings.ToLower(v.Text) {
		case "true", "yes", "on", "y":
			*into = true
		case "false", "no", "off", "n", "":
		default:
			r.refuse(v.Line, v.Column, "expected true or false, found "+strconv.Quote(v.Text))
		}
	}
}

func (r *reader) list(v *source.Value, what string, read func(*source.Value)) {
	switch v.Kind() {
	case "a list":
		for _, item := range v.Items {
			read(item)
		}
	case "nothing":
	default:
		r.refuse(v.Line, v.Column, what+" must be a list, not "+v.Kind())
	}
}

// domain reads a whole file.
func (r *reader) domain(root *source.Value) *node {
	n := &node{file: r.file, line: root.Line, column: root.Column}
	r.fields(root, "the file", map[string]func(*source.Value){
		"domain":      r.text(&n.value),
		"descriptors": func(v *source.Value) { r.children(v, n) },
	})
	if n.value == "" {
		r.refuse(root.Line, root.Column, "the file has no domain; add domain: NAME")
	}
	return n
}

func (r *reader) children(v *source.Value, parent *node) {
	r.list(v, "descriptors", func(item *source.Value) {
		if child := r.descriptor(item); child != nil {
			parent.children = append(parent.children, child)
		}
	})
}

func (r *reader) descriptor(v *source.Value) *node {
	n := &node{file: r.file, line: v.Line, column: v.Column}
	var detailed, valued bool
	r.fields(v, "a descriptor", map[string]func(*source.Value){
		"key":             r.text(&n.key),
		"value":           r.text(&n.value),
		"rate_limit":      func(v *source.Value) { n.limit = r.rateLimit(v) },
		"descriptors":     func(v *source.Value) { r.children(v, n) },
		"shadow_mode":     r.flag(&n.shadow),
		"quota_mode":      r.flag(&n.quota),
		"share_threshold": r.flag(&n.share),
		"detailed_metric": r.flag(&detailed),
		"value_to_metric": r.flag(&valued),
	})
	if detailed {
		n.metrics = append(n.metrics, "detailed_metric")
	}
	if valued {
		n.metrics = append(n.metrics, "value_to_metric")
	}
	switch {
	case n.key == "":
		r.refuse(v.Line, v.Column, "the descriptor has no key; add key: NAME")
		return nil
	case n.share && !strings.HasSuffix(n.composite(), "*"):
		r.refuse(v.Line, v.Column, "share_threshold is for values that end with *")
	}
	return n
}

func (r *reader) rateLimit(v *source.Value) *rateLimit {
	if v.Kind() == "nothing" {
		return nil
	}
	l := &rateLimit{}
	var unit string
	r.fields(v, "rate_limit", map[string]func(*source.Value){
		"unit":      r.text(&unit),
		"unlimited": r.flag(&l.unlimited),
		"name":      r.text(&l.name),
		"requests_per_unit": func(v *source.Value) {
			n, err := strconv.ParseUint(v.Text, 10, 32)
			if err != nil {
				r.refuse(v.Line, v.Column, "requests_per_unit must be a whole number from 0 to 4294967295")
			}
			l.requests = uint32(n)
		},
		"replaces": func(v *source.Value) {
			r.list(v, "replaces", func(item *source.Value) {
				var name string
				r.fields(item, "an entry of replaces", map[string]func(*source.Value){"name": r.text(&name)})
				l.replaces = append(l.replaces, name)
			})
		},
	})
	l.window = windows[strings.ToUpper(unit)]
	switch {
	case l.unlimited && l.window != "":
		r.refuse(v.Line, v.Column, "an unlimited rate_limit has no unit; remove one")
	case !l.unlimited && l.window == "":
		r.refuse(v.Line, v.Column, "unit "+strconv.Quote(unit)+" must be "+unitNames)
	case slices.Contains(l.replaces, ""):
		r.refuse(v.Line, v.Column, "an entry of replaces has no name")
	case l.name != "" && slices.Contains(l.replaces, l.name):
		r.refuse(v.Line, v.Column, "the rate_limit replaces itself; remove its own name from replaces")
	}
	return l
}

// composite is what that project files the node under, and what must be unique among
// siblings.
func (n *node) composite() string {
	if n.value == "" {
		return n.key
	}
	return n.key + "_" + n.value
}

// unique refuses siblings that say the same.
func (r *reader) unique(parent *node) {
	seen := make(map[string]bool, len(parent.children))
	for _, n := range parent.children {
		if seen[n.composite()] {
			r.found = append(r.found, source.Problem{File: n.file, Line: n.line, Column: n.column,
				Message: "the descriptor " + strconv.Quote(n.composite()) + " is there already; remove one"})
		}
		seen[n.composite()] = true
		r.unique(n)
	}
}

// read reads all files; files of one domain are one.
func read(files []File) ([]*node, error) {
	var domains []*node
	refused := &source.Error{}
	for _, f := range files {
		root, err := source.Read(f.Name, f.Data)
		if err != nil {
			return nil, err
		}
		r := &reader{file: f.Name}
		n := r.domain(root)
		at := slices.IndexFunc(domains, func(d *node) bool { return d.value == n.value })
		if at < 0 {
			at, domains = len(domains), append(domains, n)
		} else {
			domains[at].children = append(domains[at].children, n.children...)
		}
		if len(r.found) == 0 {
			r.unique(domains[at])
		}
		refused.Problems = append(refused.Problems, r.found...)
	}
	if n := len(refused.Problems); n > source.MaxProblems {
		refused.Problems, refused.Omitted = refused.Problems[:source.MaxProblems], n-source.MaxProblems
	}
	if len(refused.Problems) > 0 {
		return nil, refused
	}
	return domains, nil
}
