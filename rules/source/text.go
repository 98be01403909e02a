package source

import (
	"strings"
	"unicode/utf8"
)

// MaxFileBytes is the size of the largest rules file: ten thousand rules with room for overrides.
// It also bounds the Raft log entry that carries the file.
const MaxFileBytes = 4 << 20

const byteOrderMark = "\ufeff"

// cleanText checks the bytes of a file and converts them to the form that the parser gets: UTF-8,
// line feeds, no byte order mark. If they cannot be a rules file, it reports that and returns
// false.
func cleanText(p *Problems, data []byte) (string, bool) {
	if len(data) > MaxFileBytes {
		p.Add(Position{1, 1}, "the file has %d bytes; a rules file has at most %d", len(data), MaxFileBytes)
		return "", false
	}
	text := strings.TrimPrefix(string(data), byteOrderMark)
	text = strings.ReplaceAll(text, "\r\n", "\n")
	text = strings.ReplaceAll(text, "\r", "\n")
	before := p.Count()
	number := 0
	for line := range strings.Lines(text) {
		number++
		checkLine(p, number, strings.TrimSuffix(line, "\n"))
	}
	return text, p.Count() == before
}

func checkLine(p *Problems, number int, line string) {
	indent := len(line) - len(strings.TrimLeft(line, " \t"))
	blank := indent == len(line) || line[indent] == '#'
	if tab := strings.IndexByte(line[:indent], '\t'); tab >= 0 && !blank {
		p.Add(Position{number, tab + 1}, "a tab cannot indent YAML; use spaces")
	}
	column := 0
	for i, r := range line {
		column++
		switch {
		case r == utf8.RuneError && !strings.HasPrefix(line[i:], "\ufffd"):
			p.Add(Position{number, column}, "the file is not UTF-8 here; save it as UTF-8")
			return
		case r < ' ' && r != '\t', r == 0x7f, r == 0xfeff:
			p.Add(Position{number, column}, "control character U+%04X; remove it, or write it as an escape in a quoted text", r)
			return
		}
	}
}
