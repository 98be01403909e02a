package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"aliquot/internal/cli"
	"aliquot/internal/config"

	"github.com/spf13/cobra"
)

// TestNoPageTellsOfThisMachine: what is generated on one machine is the same on every other.
func TestNoPageTellsOfThisMachine(t *testing.T) {
	host, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	home, err := os.UserHomeDir()
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range pages {
		text, err := p.text("../..")
		if err != nil {
			t.Fatalf("%s: %v", p.file, err)
		}
		for _, word := range []string{"@" + host, home + "/", os.TempDir() + "/"} {
			if strings.Contains(text, word) {
				t.Errorf("%s has %q", p.file, word)
			}
		}
	}
}

// TestPagesAreUpToDate: the pages have every command, flag, field, metric and alert as it is. So they pin the help
// texts and the names of the metrics.
func TestPagesAreUpToDate(t *testing.T) {
	for _, p := range pages {
		text, err := p.text("../..")
		if err != nil {
			t.Fatal(err)
		}
		if got, err := os.ReadFile(filepath.Join("../..", folder, p.file)); err != nil || string(got) != head(p.title, p.about)+text {
			t.Errorf("%s is out of date, %v: run go run -C tools ./reference, and say why it changes", p.file, err)
		}
	}
}

// TestEveryVariableIsListed finds the variables of the environment that the sources read.
func TestEveryVariableIsListed(t *testing.T) {
	var listed []string
	for _, row := range outside {
		listed = append(listed, strings.Trim(row[0], "`"))
	}
	files, err := exec.Command("git", "-C", "../..", "ls-files", "--", "*.go").Output()
	if err != nil {
		t.Fatal(err)
	}
	name := regexp.MustCompile(`(?:etenv\(|environ, |Var += +|getenv\()"([A-Z][A-Z_]+)"`)
	found := 0
	for file := range strings.FieldsSeq(string(files)) {
		if strings.HasSuffix(file, "_test.go") || strings.HasPrefix(file, "tools/") || strings.HasPrefix(file, "internal/e2e/") {
			continue
		}
		text, err := os.ReadFile(filepath.Join("../..", file))
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range name.FindAllStringSubmatch(string(text), -1) {
			found++
			if !slices.Contains(listed, m[1]) {
				t.Errorf("%s reads $%s, which docs/reference/configuration.md does not list", file, m[1])
			}
		}
	}
	if found < 6 {
		t.Errorf("%d variables: are they read in another way now?", found)
	}
}

// TestEveryProgramAcceptsTheVariablesOfTheOthers: programs share one environment. Each knows its own flags, and
// of the others those in config.Known, which has no name that none reads.
func TestEveryProgramAcceptsTheVariablesOfTheOthers(t *testing.T) {
	var read []string
	programs := [][]string{nil} // the flags of aliquot have no variables
	for _, fs := range daemons() {
		own := config.Variables(fs)
		read, programs = append(read, own...), append(programs, own)
	}
	for _, row := range outside {
		if name, ours := strings.CutPrefix(strings.Trim(row[0], "`"), config.EnvPrefix); ours {
			read = append(read, strings.ToLower(strings.ReplaceAll(name, "_", "-")))
		}
	}
	for _, name := range read {
		for _, own := range programs {
			if err := config.CheckEnvironment([]string{config.Variable(name) + "=1"}, own...); err != nil {
				t.Errorf("a program with the flags %q: %v\nAdd %q to known in internal/config/environment.go", own, err, name)
			}
		}
	}
	for _, name := range config.Known() {
		if !slices.Contains(read, name) {
			t.Errorf("config.Known has %q, which no program reads", name)
		}
	}
}

// flagInText is a flag that a page names.
var flagInText = regexp.MustCompile("(?:^|[ `(])--([a-z][a-z-]+[a-z])")

// TestPagesNameFlagsThatExist looks at code spans and code blocks that begin with one of the programs.
func TestPagesNameFlagsThatExist(t *testing.T) {
	known := map[string]bool{}
	for _, fs := range daemons() {
		fs.VisitAll(func(f *pflag.Flag) { known[f.Name] = true })
	}
	var visit func(*cobra.Command)
	visit = func(c *cobra.Command) {
		add := func(f *pflag.Flag) { known[f.Name] = true }
		c.Flags().VisitAll(add)
		c.PersistentFlags().VisitAll(add)
		for _, sub := range c.Commands() {
			visit(sub)
		}
	}
	visit(cli.Command(cli.Streams{}))
	seen := 0
	for _, pattern := range []string{"*.md", "docs/*.md", "docs/*/*.md"} {
		files, err := filepath.Glob(filepath.Join("../..", pattern))
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			if filepath.Base(file) == "CHANGELOG.md" {
				continue
			}
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			// A span in which a flag comes first is one of ours.
			for _, span := range regexp.MustCompile("`--[^`\n]+`|`(?:aliquot|regional|coordinator) [^`\n]+`").FindAllString(string(text), -1) {
				for _, m := range flagInText.FindAllStringSubmatch(span, -1) {
					if seen++; !known[m[1]] {
						t.Errorf("%s: %s: no program has --%s", file, span, m[1])
					}
				}
			}
		}
	}
	if seen < 100 {
		t.Errorf("%d flags: are the pages elsewhere now?", seen)
	}
}
