package main

import (
	"os"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

// TestTheReadmeIsShort: 180 lines of 110 characters, tables and commands among them.
func TestTheReadmeIsShort(t *testing.T) {
	text, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for line := range strings.Lines(string(text)) {
		n++
		if length := utf8.RuneCountInString(strings.TrimRight(line, "\n")); length > 110 {
			t.Errorf("README.md:%d has %d characters, at most 110 are wanted", n, length)
		}
	}
	if n > 180 {
		t.Errorf("README.md has %d lines, at most 180 are wanted", n)
	}
}

// TestDocumentationIsReadable holds the goals for all pages together: no line of text above 120
// characters, 18 words a sentence on average, and at most 3 % of the sentences above 35 words.
func TestDocumentationIsReadable(t *testing.T) {
	pages, err := countAll("../..")
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range pages[:len(pages)-1] {
		if p.LongLines > 0 {
			t.Errorf("%s has %d lines above %d characters: wrap them", p.Name, p.LongLines, longLine)
		}
	}
	all := pages[len(pages)-1]
	if all.Sentences < 1000 {
		t.Fatalf("%d sentences in %d pages: are the pages elsewhere now?", all.Sentences, len(pages)-1)
	}
	if mean := float64(all.Words) / float64(all.Sentences); mean > 18 {
		t.Errorf("%.1f words a sentence, at most 18 are wanted", mean)
	}
	if all.Long*100 > all.Sentences*3 {
		t.Errorf("%d of %d sentences are above %d words, at most 3 %% may be: `go run -C tools ./prose -show` lists them",
			all.Long, all.Sentences, longSentence)
	}
}

func TestCount(t *testing.T) {
	const text = `# A heading is not counted, however long it is

Three words here. And four more words:
the colon ended one. Version 1.5 ends nothing, nor does [a link](https://example.com/a. b).

    indented code. Not counted.

- an item ends
- without a full stop

  | a table | within an item. |

` + "```\nfenced code. Not counted.\n```\n"
	got := count("page", text)
	// 3, 4, 4, 8, 3 and 4 words.
	want := page{Name: "page", Lines: 15, Longest: 91, Sentences: 6, Words: 26}
	if got.Lines != want.Lines || got.Longest != want.Longest || got.Sentences != want.Sentences || got.Words != want.Words ||
		got.LongLines != 0 || got.Long != 0 {
		t.Errorf("count = %+v\nwant    %+v", got, want)
	}
}

func TestCountFindsWhatIsTooLong(t *testing.T) {
	var sentence string
	for range 36 {
		sentence += "word "
	}
	got := count("page", sentence+"\n")
	if got.LongLines != 1 || got.Longest != 180 || got.Long != 1 || got.Sentences != 1 {
		t.Errorf("count = %+v, want one long line of 180 characters and one long sentence", got)
	}
}

func TestPagesByNeed(t *testing.T) {
	pages := []page{{Name: "README.md"}, {Name: "all"}}
	for _, name := range []string{"README.md", "tutorial.md", "how-to/a.md", "reference/b.md", "explanation/decisions/0001-c.md", "explanation/d.md"} {
		pages = append(pages, page{Name: "docs/" + name})
	}
	got := byNeed(pages)
	want := []string{"tutorial 1", "how-to 1", "reference 1", "explanation 2", "benchmarks 0", "other 1"}
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}
