package e2e

import (
	"os"
	"testing"
)

// bin is where TestMain built the programs.
var bin string

func TestMain(m *testing.M) { os.Exit(RunTests(m, "../..", &bin)) }

// startCluster starts a cluster, which ends with the test, with all regions leased, and applies the rules of a file.
// It also returns these.
func startCluster(t *testing.T, s Setup, file string) (cluster *Cluster, rules string) {
	t.Helper()
	cluster, err := Start(t.Context(), bin, t.TempDir(), s)
	if cluster != nil {
		t.Cleanup(cluster.Stop)
	}
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	apply(t, cluster, string(text))
	return cluster, string(text)
}
