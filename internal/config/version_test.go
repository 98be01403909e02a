package config

import (
	"os"
	"runtime/debug"
	"strings"
	"testing"
)

func TestVersionIsTheReleaseWithTheRevision(t *testing.T) {
	const commit = "444f7d2ab01c5e6f708192a3b4c5d6e7f8091a2b"
	for _, c := range []struct {
		settings []debug.BuildSetting
		want     string
	}{
		{nil, Release},
		{[]debug.BuildSetting{{Key: "vcs.revision", Value: commit}, {Key: "vcs.modified", Value: "false"}}, Release + "+444f7d2ab01c"},
		{[]debug.BuildSetting{{Key: "vcs.revision", Value: commit}, {Key: "vcs.modified", Value: "true"}}, Release + "+444f7d2ab01c.modified"},
		{[]debug.BuildSetting{{Key: "vcs.modified", Value: "true"}}, Release},
	} {
		if got := version(c.settings); got != c.want {
			t.Errorf("version of %v = %q, want %q", c.settings, got, c.want)
		}
	}
	if !strings.HasPrefix(Version(), Release) {
		t.Errorf("Version() = %q, want %q in front", Version(), Release)
	}
}

// The newest release of the changelog is the one that binaries tell.
func TestTheChangelogHasTheRelease(t *testing.T) {
	text, err := os.ReadFile("../../CHANGELOG.md")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(text), "\n## ["+Release+"] - ") {
		t.Errorf("CHANGELOG.md has no section of %s", Release)
	}
}
