package cli

import (
	"os"
	"path/filepath"
	"testing"
)

const envoyConfig = `domain: mongo
descriptors:
  - key: database
    detailed_metric: true
    rate_limit: {unit: second, requests_per_unit: 500}
`

// TestImportOfEnvoyRatelimitFiles: rules to standard output or a file, remarks to
// standard error, and what it writes is a rules file.
func TestImportOfEnvoyRatelimitFiles(t *testing.T) {
	file := writeRules(t, envoyConfig)
	r := command(t, "", "import", "envoy-ratelimit", file)
	r.want(t, exitOK, "- id: mongo.database", file+":3:5: not carried over: detailed_metric", "1 rules; remarks: 1")

	to := filepath.Join(t.TempDir(), "rules.yaml")
	command(t, envoyConfig, "import", "envoy-ratelimit", "-", "--write", to).want(t, exitOK, "<stdin>:3:5: not carried over")
	written, err := os.ReadFile(to)
	if err != nil || string(written) != r.out {
		t.Errorf("%v, the file has\n%s\nstandard output had\n%s", err, written, r.out)
	}
	command(t, "", "rules", "validate", to).want(t, exitOK, "1 rules, valid")
}

func TestImportRefusesWhatIsNone(t *testing.T) {
	command(t, "domain: d\ndescriptors: [{value: v}]\n", "import", "envoy-ratelimit", "-").want(t, exitError, "<stdin>:2:15: the descriptor has no key")
	command(t, "", "import", "envoy-ratelimit").want(t, exitUsage)
	command(t, "", "import").want(t, exitUsage, "one of envoy-ratelimit")
	command(t, "", "import", "envoy-ratelimit", filepath.Join(t.TempDir(), "none")).want(t, exitError, "no such file")
}
