package main

import (
	"os"
	"slices"
	"strings"
	"testing"
)

// TestEveryLinkLeadsSomewhere checks the pages and the sources as they are.
func TestEveryLinkLeadsSomewhere(t *testing.T) {
	found, err := check("../..")
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range found.problems {
		t.Error(p)
	}
	if found.links < 400 || found.files < 50 {
		t.Errorf("%d links in %d files: are the pages elsewhere now?", found.links, found.files)
	}
}

// TestCheckFindsWhatLeadsNowhere: testdata/site has each kind of link, good and bad.
func TestCheckFindsWhatLeadsNowhere(t *testing.T) {
	found, err := check("testdata/site")
	if err != nil {
		t.Fatal(err)
	}
	want, err := os.ReadFile("testdata/problems.txt")
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(found.problems, "\n") + "\n"; got != string(want) {
		t.Errorf("problems:\n%s\nwant\n%s", got, want)
	}
}

func TestAnchorsAreThoseOfGitHub(t *testing.T) {
	got := anchorsOf("# `GET /check`: what, why & how\n## [A link](x.md) of *words*\n## In_snake-case ##\n## A – B\n")
	want := []string{"get-check-what-why--how", "a-link-of-words", "in_snake-case", "a--b"}
	if !slices.Equal(got, want) {
		t.Errorf("anchors %q, want %q", got, want)
	}
}
