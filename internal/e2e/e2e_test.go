package e2e

import (
	"os"
	"testing"
)

// bin is where TestMain built the programs.
var bin string

func TestMain(m *testing.M) { os.Exit(RunTests(m, "../..", &bin)) }
