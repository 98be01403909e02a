package rules

import (
	"errors"
	"runtime"
	"strings"
	"testing"
)

// TestAFileOfNothingButSignsIsRefusedBeforeItIsSplit: the scanner splits a whole line at once, and a
// token takes a hundred times the memory of the two bytes that it is written with.
func TestAFileOfNothingButSignsIsRefusedBeforeItIsSplit(t *testing.T) {
	const size, most = 4 << 20, 64
	for _, sign := range []string{"- ", "? ", "a: ", "[", "{", ",", "'' ", "\"\" ", "-\t", "-\n", "? - ", ": ", "& ", "* ", "! ", "| ", "> ", "# \n", "''", "a\n"} {
		text := strings.Repeat(sign, size/len(sign))
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, _, err := Parse("r.yaml", []byte(text))
		runtime.ReadMemStats(&after)
		n := (after.TotalAlloc - before.TotalAlloc) >> 20
		t.Logf("%q: %d MiB", sign, n)
		if problems, ok := errors.AsType[*Error](err); !ok || problems == nil {
			t.Errorf("%q: %v", sign, err)
		}
		if n > most {
			t.Errorf("%q: %d MiB allocated for 4 MiB of text; at most %d", sign, n, most)
		}
	}
}
