package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestDecisionsHaveTheirForm: pages are numbered without a gap, each has the four parts in their order, and
// the index has a line for each with the page's own title.
func TestDecisionsHaveTheirForm(t *testing.T) {
	const folder = "../../docs/explanation/decisions"
	index, err := os.ReadFile(filepath.Join(folder, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	pages, err := filepath.Glob(filepath.Join(folder, "0*.md"))
	if err != nil || len(pages) < 50 {
		t.Fatalf("%d pages (%v): are the decisions elsewhere now?", len(pages), err)
	}
	form := regexp.MustCompile(`(?s)^# (\d+)\. ([^\n]+)\n\nStatus: (accepted|superseded by [^\n]+)\n\n## Context\n\n.+\n\n## Decision\n\n.+\n\n## Consequences\n\n.+\n$`)
	for i, page := range pages {
		name := filepath.Base(page)
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		parts := form.FindStringSubmatch(string(text))
		if parts == nil || parts[1] != fmt.Sprint(i+1) || !strings.HasPrefix(name, fmt.Sprintf("%04d-", i+1)) {
			t.Errorf("%s: want number %d, a status, and the parts Context, Decision and Consequences", name, i+1)
			continue
		}
		if line := fmt.Sprintf("[%04d](%s) %s", i+1, name, parts[2]); !strings.Contains(strings.ReplaceAll(string(index), "\n  ", " "), line) {
			t.Errorf("the index does not have the line %q", line)
		}
	}
}
