package plants

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// root is the module's, seen from this package.
const root = "../../.."

// Every plant still finds the code that it breaks.
func TestPlantsFollowTheCode(t *testing.T) {
	name := regexp.MustCompile(`^[a-z0-9]+(-[a-z0-9]+)*$`)
	seen := map[string]bool{}
	for _, p := range All() {
		if !name.MatchString(p.Name) || seen[p.Name] || p.Breaks == "" || len(p.Edits) == 0 {
			t.Errorf("plant %q: its name has to be one of its own, in lower case with dashes, and it has to break something", p.Name)
		}
		seen[p.Name] = true
		texts, err := p.mutated(root)
		if err != nil {
			t.Error(err)
		}
		for file := range texts {
			if strings.HasSuffix(file, "_test.go") {
				t.Errorf("plant %s changes a test: %s", p.Name, file)
			}
		}
	}
}

// A plant whose code has gone, or cannot be told from other code, says so.
func TestPlantsThatLostTheirCode(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "a.go"), []byte("one two two"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, x := range []struct {
		edit Edit
		want string
	}{
		{Edit{"a.go", "three", "four"}, "has no more"},
		{Edit{"a.go", "two", "four"}, "2 times"},
		{Edit{"a.go", "one", "one"}, "changes nothing"},
		{Edit{"b.go", "one", "two"}, "has to follow the code"},
	} {
		_, err := Plant{Name: "p", Edits: []Edit{x.edit}}.mutated(dir)
		if err == nil || !strings.Contains(err.Error(), x.want) {
			t.Errorf("%+v: %v", x.edit, err)
		}
	}
	texts, err := Plant{Edits: []Edit{{"a.go", "one", "two"}, {"a.go", "two two two", "three"}}}.mutated(dir)
	if err != nil || texts["a.go"] != "three" {
		t.Errorf("edits are made one after the other: %v, %v", texts, err)
	}
}

// Nothing is planted that nobody has seen.
func TestEveryPlantHasBeenSeen(t *testing.T) {
	known, err := Known()
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range All() {
		if p.Harmless == "" && known[p.Name] == (Sighting{}) {
			t.Errorf("nothing is known to catch %s: go run ./sim/plants/run -hunt -only %s", p.Name, p.Name)
		}
	}
}

// The page says what is known: which plants there are, and what caught each.
// A test of a package that has moved would never run, and catch nothing.
func TestTheTestsThatSeePlantsAreThere(t *testing.T) {
	known, err := Known()
	if err != nil {
		t.Fatal(err)
	}
	for _, pkg := range slices.Concat(tested, drawing) {
		if files, err := filepath.Glob(filepath.Join(root, pkg, "*_test.go")); err != nil || len(files) == 0 {
			t.Errorf("%s has no tests (%v)", pkg, err)
		}
	}
	for plant, s := range known {
		pkg, name, named := strings.Cut(s.Test, " ")
		if !named {
			continue
		}
		files, err := filepath.Glob(filepath.Join(root, pkg, "*_test.go"))
		if err != nil {
			t.Fatal(err)
		}
		if !slices.ContainsFunc(files, func(file string) bool {
			text, err := os.ReadFile(file)
			return err == nil && strings.Contains(string(text), "func "+name+"(")
		}) {
			t.Errorf("%s: there is no %s in %s", plant, name, pkg)
		}
	}
}

func TestPageSaysWhatIsKnown(t *testing.T) {
	known, err := Known()
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(page)))
	if err != nil {
		t.Fatal(err)
	}
	want, err := withTable(text, known)
	if err != nil {
		t.Fatal(err)
	}
	if string(want) != string(text) {
		t.Error("the table is not that of the plants: go run ./internal/sim/plants/run -doc")
	}
}
