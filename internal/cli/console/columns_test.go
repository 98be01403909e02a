package console

import (
	"bytes"
	"strings"
	"testing"
)

// A table fits a terminal of 80 columns, and loses nothing: what does not fit comes below, with
// its first column; a text at the end is broken between words.
func TestTablesFitTheTerminal(t *testing.T) {
	wide := [][]string{{"REGION", "STATE", "SHARE", "BURST SHARE", "RATE/S", "BURST", "TOKENS", "ADMITTED", "OFFERED", "GENERATION", "LEASE"}}
	for _, region := range []string{"us-east", "eu-west"} {
		wide = append(wide, []string{region, "live", "33.3%", "33.3%", "33.3333", "100", "99.1234", "1234567", "7654321", "12.345", "9.9s"})
	}
	text := [][]string{{"PROMISE", "AT WORST", "MEANING"}, {"excess", "100", strings.Repeat("many words that say what it means ", 5)}}
	for name, rows := range map[string][][]string{"columns": wide, "a text": text} {
		var out bytes.Buffer
		columnsWithin(&out, rows, 80)
		for line := range strings.Lines(out.String()) {
			if len(strings.TrimRight(line, " \n")) > 80 {
				t.Errorf("%s: %d columns: %s", name, len(line), line)
			}
		}
		for _, row := range rows {
			for _, cell := range row {
				for _, word := range strings.Fields(cell) {
					if !strings.Contains(out.String(), word) {
						t.Errorf("%s: %q is lost in\n%s", name, word, out.String())
					}
				}
			}
		}
	}
	var piped, narrow bytes.Buffer
	Columns(&piped, wide)
	columnsWithin(&narrow, wide, 80)
	if strings.Count(piped.String(), "\n") != 3 {
		t.Errorf("into a pipe each row is a line:\n%s", piped.String())
	}
	if strings.Count(narrow.String(), "us-east") != 2 {
		t.Errorf("each part names its rows:\n%s", narrow.String())
	}
}
