package console

import (
	"fmt"
	"io"
	"os"
	"strings"
	"text/tabwriter"
	"unicode/utf8"

	"golang.org/x/sys/unix"
)

const (
	// between is the space between two columns.
	between = 2
	// minText is the least width worth breaking a text to.
	minText = 24
)

// Columns prints rows aligned, the first one being the head. On a terminal that is too narrow
// the last column is broken into lines, or the columns are printed in parts, each with the
// first one; into a file or a pipe each row stays a line.
func Columns(w io.Writer, rows [][]string) { columnsWithin(w, rows, widthOf(w)) }

func columnsWithin(w io.Writer, rows [][]string, width int) {
	for i, part := range fitted(rows, width) {
		if i > 0 {
			fmt.Fprintln(w)
		}
		printColumns(w, part)
	}
}

func printColumns(w io.Writer, rows [][]string) {
	t := tabwriter.NewWriter(w, 0, 0, between, ' ', 0)
	for _, row := range rows {
		fmt.Fprintln(t, strings.Join(row, "\t"))
	}
	t.Flush()
}

// IsTerminal reports whether w is a terminal.
func IsTerminal(w io.Writer) bool { return widthOf(w) > 0 }

// widthOf is how many columns a terminal has; 0 of what is none.
func widthOf(w io.Writer) int {
	f, ok := w.(*os.File)
	if !ok {
		return 0
	}
	size, err := unix.IoctlGetWinsize(int(f.Fd()), unix.TIOCGWINSZ)
	if err != nil {
		return 0
	}
	return int(size.Col)
}

// fitted makes tables of rows that are no wider than that, as far as single cells allow it.
func fitted(rows [][]string, width int) [][][]string {
	widths := columnWidths(rows)
	last := len(widths) - 1
	if width <= 0 || last < 1 || spanOf(widths) <= width {
		return [][][]string{rows}
	}
	if left := width - spanOf(widths[:last]) - between; left >= minText && widths[last] > left {
		return [][][]string{broken(rows, last, left)}
	}
	var out [][][]string
	for from := 1; from <= last; {
		to, span := from, widths[0]
		for to <= last && (to == from || span+between+widths[to] <= width) {
			span += between + widths[to]
			to++
		}
		var part [][]string
		for _, row := range rows {
			part = append(part, append([]string{row[0]}, row[min(from, len(row)):min(to, len(row))]...))
		}
		if left := width - (span - widths[to-1]); to == last+1 && span > width && left >= minText {
			part = broken(part, to-from, left)
		}
		out, from = append(out, part), to
	}
	return out
}

func columnWidths(rows [][]string) (widths []int) {
	for _, row := range rows {
		for i, cell := range row {
			if i == len(widths) {
				widths = append(widths, 0)
			}
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	return widths
}

func spanOf(widths []int) int {
	out := between * (len(widths) - 1)
	for _, n := range widths {
		out += n
	}
	return out
}

// broken has the texts of a column on as many lines as they need.
func broken(rows [][]string, column, width int) (out [][]string) {
	for _, row := range rows {
		if column >= len(row) {
			out = append(out, row)
			continue
		}
		for i, line := range lines(row[column], width) {
			next := make([]string, len(row))
			if i == 0 {
				copy(next, row)
			}
			next[column] = line
			out = append(out, next)
		}
	}
	return out
}

// lines breaks a text between words.
func lines(text string, width int) []string {
	out := []string{""}
	for _, word := range strings.Fields(text) {
		last := &out[len(out)-1]
		switch {
		case *last == "":
			*last = word
		case utf8.RuneCountInString(*last)+1+utf8.RuneCountInString(word) <= width:
			*last += " " + word
		default:
			out = append(out, word)
		}
	}
	return out
}
