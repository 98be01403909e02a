package envoyimport

import (
	"fmt"
	"hash/fnv"
	"strings"

	"aliquot/rules/source"
)

// header says what holds for every rule of the file.
const header = `# Imported from envoyproxy/ratelimit. Windows begin and end where they do there. Every
# request carries the attribute domain. What differs for all rules: an entry without a
# value counts as absent, the order of entries does not count, entries that the domain
# does not name are not looked at, and a denied request consumes nothing.
`

// ids makes readable ids of paths. An id that would come twice or be too long ends with
// a hash of what it is for.
type ids map[string]bool

func (used ids) of(domain string, path []step) string {
	parts := []string{plain(domain)}
	exact := domain
	for _, s := range path {
		part := plain(s.key)
		switch {
		case s.value == "*":
			part += "-any"
		case s.value != "":
			part += "-" + plain(strings.TrimSuffix(s.value, "*"))
			if s.span().prefix {
				part += "-any"
			}
		}
		parts = append(parts, part)
		exact += "\x00" + s.key + "\x00" + s.value
	}
	id := strings.Join(parts, ".")
	if len(id) > source.MaxNameChars || used[id] {
		h := fnv.New64a()
		h.Write([]byte(exact)) // never fails
		tail := fmt.Sprintf("-%016x", h.Sum64())
		id = id[:min(len(id), source.MaxNameChars-len(tail))] + tail
	}
	used[id] = true
	return id
}

// plain puts hyphens in the place of what an id cannot have.
func plain(text string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', r == '_', r == '-':
			return r
		}
		return '-'
	}, text)
}

func write(all []domainRules) []byte {
	var b strings.Builder
	b.WriteString(header)
	b.WriteString("defaults: {algorithm: fixed_window}\n")
	total := 0
	for _, d := range all {
		total += len(d.rules)
	}
	if total == 0 {
		b.WriteString("rules: []\n")
		return []byte(b.String())
	}
	b.WriteString("rules:\n")
	for _, d := range all {
		for _, r := range d.rules {
			r.write(&b, d.domain)
		}
	}
	return []byte(b.String())
}

func (r *rule) write(b *strings.Builder, domain string) {
	fmt.Fprintf(b, "  - id: %s\n    match:\n      attributes:\n", scalar(r.id))
	condition{attribute: domainAttribute, text: domain, regexes: literally(domain)}.write(b)
	for _, c := range r.match {
		c.write(b)
	}
	fmt.Fprintf(b, "    key: %s\n", list(r.key))
	if len(r.replaces) > 0 {
		fmt.Fprintf(b, "    replaces: %s\n", list(r.replaces))
	}
	if len(r.inRequest) > 0 {
		fmt.Fprintf(b, "    replaces_in_request: %s\n", list(r.inRequest))
	}
	if r.shadow {
		b.WriteString("    shadow: true\n")
	}
	if r.unlimited {
		b.WriteString("    params: {limit: unlimited}\n")
		return
	}
	fmt.Fprintf(b, "    params: {limit: %d, window: %s}\n", r.limit, r.window)
}

func (c condition) write(b *strings.Builder) {
	fmt.Fprintf(b, "        %s: ", scalar(c.attribute))
	switch len(c.regexes) {
	case 0:
		b.WriteString(scalar(c.text))
	case 1:
		fmt.Fprintf(b, "{regex: %s}", source.Quote(c.regexes[0]))
	default:
		b.WriteString("\n")
		for _, re := range c.regexes {
			fmt.Fprintf(b, "          - {regex: %s}\n", source.Quote(re))
		}
		return
	}
	b.WriteString("\n")
}

func list(texts []string) string {
	quoted := make([]string, 0, len(texts))
	for _, t := range texts {
		quoted = append(quoted, scalar(t))
	}
	return "[" + strings.Join(quoted, ", ") + "]"
}

// scalar writes a text without quotes where every reader of YAML takes it for a text.
func scalar(text string) string {
	switch strings.ToLower(text) {
	case "", "true", "false", "null", "yes", "no", "on", "off", "y", "n":
		return source.Quote(text)
	}
	letter := text[0] >= 'a' && text[0] <= 'z' || text[0] >= 'A' && text[0] <= 'Z'
	if !letter || strings.ContainsFunc(text, func(r rune) bool { return r != '.' && string(r) != plain(string(r)) }) {
		return source.Quote(text)
	}
	return text
}
