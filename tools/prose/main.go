// Command prose counts what makes documentation hard to read: long lines and long sentences. It looks
// at README.md, the other pages at the top and docs/, and leaves out code, tables, headings and links' targets.
// It ends with the figures that are wanted of all pages together, and the number of pages by need.
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"
)

const (
	longLine     = 120 // characters
	longSentence = 35  // words
)

// page is what was counted on one page, or on all of them.
type page struct {
	Name      string `json:"page"`
	Lines     int    `json:"lines"`
	Longest   int    `json:"longest_line"`
	LongLines int    `json:"lines_above_120"`
	Sentences int    `json:"sentences"`
	Words     int    `json:"words"`
	Long      int    `json:"sentences_above_35_words"`
	// longest are those sentences.
	longest []string
}

func main() {
	root := flag.String("root", "..", "folder of Aliquot's sources")
	output := flag.String("output", "text", "text or json")
	show := flag.Bool("show", false, "print each sentence of more than 35 words")
	flag.Parse()
	pages, err := countAll(*root)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	if *output == "json" {
		err = json.NewEncoder(os.Stdout).Encode(pages)
	} else {
		print(pages, *show)
		err = printFigures(*root, pages)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// countAll counts each page below root, and all together as the last one.
func countAll(root string) ([]page, error) {
	var pages []page
	total := page{Name: "all"}
	for _, pattern := range []string{"*.md", "docs/*.md", "docs/*/*.md", "docs/*/*/*.md"} {
		files, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil {
			return nil, err
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				return nil, err
			}
			name, err := filepath.Rel(root, file)
			if err != nil {
				return nil, err
			}
			p := count(name, string(text))
			pages = append(pages, p)
			total.add(p)
		}
	}
	return append(pages, total), nil
}

func (p *page) add(other page) {
	p.Lines += other.Lines
	p.Longest = max(p.Longest, other.Longest)
	p.LongLines += other.LongLines
	p.Sentences += other.Sentences
	p.Words += other.Words
	p.Long += other.Long
}

var (
	codeOrTable = regexp.MustCompile(`^(    |\t|\||#|<)`)
	link        = regexp.MustCompile(`\]\([^)]*\)`)
	listItem    = regexp.MustCompile(`^\s*([-*]|\d+\.)\s+`)
	ends        = regexp.MustCompile(`[.!?:][)"*` + "`" + `]*(\s+|$)`)
)

// count counts one page.
func count(name, text string) page {
	p := page{Name: name}
	var paragraph []string
	fenced := false
	flush := func() {
		p.sentences(strings.Join(paragraph, " "))
		paragraph = nil
	}
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\n")
		p.Lines++
		switch {
		case strings.HasPrefix(strings.TrimSpace(line), "```"):
			fenced = !fenced
			flush()
			continue
		case fenced:
			continue
		case line == "", codeOrTable.MatchString(line) && !listItem.MatchString(line) && len(paragraph) == 0, strings.HasPrefix(strings.TrimSpace(line), "|"), strings.HasPrefix(line, "#"):
			flush()
			continue
		case listItem.MatchString(line):
			flush()
			line = listItem.ReplaceAllString(line, "")
		}
		length := utf8.RuneCountInString(line)
		p.Longest = max(p.Longest, length)
		if length > longLine {
			p.LongLines++
		}
		paragraph = append(paragraph, strings.TrimSpace(line))
	}
	flush()
	return p
}

// sentences counts the sentences of a paragraph. A colon ends one: what follows can be read by itself.
func (p *page) sentences(text string) {
	text = link.ReplaceAllString(text, "]")
	for text != "" {
		end := ends.FindStringIndex(text)
		if end == nil {
			end = []int{len(text), len(text)}
		}
		sentence := strings.TrimSpace(text[:end[1]])
		text = text[end[1]:]
		words := len(slices.DeleteFunc(strings.Fields(sentence), func(w string) bool { return !strings.ContainsFunc(w, isWord) }))
		if words == 0 {
			continue
		}
		p.Sentences++
		p.Words += words
		if words > longSentence {
			p.Long++
			p.longest = append(p.longest, sentence)
		}
	}
}

func isWord(r rune) bool { return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' }

func print(pages []page, show bool) {
	fmt.Printf("%-28s %6s %8s %6s %10s %6s %6s\n", "page", "lines", "longest", "> 120", "words/sent", "> 35", "of")
	for _, p := range pages {
		fmt.Printf("%-28s %6d %8d %6d %10.1f %6d %6d\n", p.Name, p.Lines, p.Longest, p.LongLines, float64(p.Words)/float64(max(p.Sentences, 1)), p.Long, p.Sentences)
		if show {
			for _, s := range p.longest {
				fmt.Printf("    %s\n", s)
			}
		}
	}
}

// printFigures prints what is wanted of all pages together, beside what there is.
func printFigures(root string, pages []page) error {
	readme, err := os.ReadFile(filepath.Join(root, "README.md"))
	if err != nil {
		return err
	}
	lines, longest := 0, 0
	for line := range strings.Lines(string(readme)) {
		lines++
		longest = max(longest, utf8.RuneCountInString(strings.TrimRight(line, "\n")))
	}
	all := pages[len(pages)-1]
	sentences := float64(max(all.Sentences, 1))
	fmt.Printf("\nREADME.md: %d lines (at most 180), the longest has %d characters (at most 110)\n", lines, longest)
	fmt.Printf("lines above %d characters: %d (0)\n", longLine, all.LongLines)
	fmt.Printf("mean words a sentence: %.1f (at most 18)\n", float64(all.Words)/sentences)
	fmt.Printf("sentences above %d words: %.1f %% (at most 3 %%)\n", longSentence, float64(all.Long)*100/sentences)
	fmt.Printf("pages by need: %s\n", strings.Join(byNeed(pages), ", "))
	return nil
}

// byNeed counts the pages of docs/ by the reader's need. The folder of a page says which one it is.
func byNeed(pages []page) []string {
	needs := []string{"tutorial", "how-to", "reference", "explanation", "benchmarks", "other"}
	count := map[string]int{}
	for _, p := range pages {
		name, inDocs := strings.CutPrefix(filepath.ToSlash(p.Name), "docs/")
		if !inDocs {
			continue
		}
		need, _, _ := strings.Cut(strings.TrimSuffix(name, ".md"), "/")
		if !slices.Contains(needs, need) {
			need = "other"
		}
		count[need]++
	}
	var out []string
	for _, need := range needs {
		out = append(out, fmt.Sprintf("%s %d", need, count[need]))
	}
	return out
}
