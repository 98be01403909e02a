package deploycheck

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const systemdDir = "deploy/systemd"

// maxExposure is systemd's own score of how open a unit is, in tenths: 100 is a unit
// without any restriction, below 20 it says OK.
const maxExposure = 20

// unit is a unit file: section, directive, its values in order.
type unit map[string]map[string][]string

// known are the directives of the units here. systemd only warns of one that it does
// not know, and then runs the service without that protection.
func known() map[string][]string {
	return map[string][]string{
		"Unit": {"Description", "Wants", "After", "StartLimitIntervalSec"},
		"Service": {
			"Type", "LoadCredential", "ExecStart", "Restart", "RestartSec", "TimeoutStopSec",
			"DynamicUser", "StateDirectory", "StateDirectoryMode", "UMask", "LimitNOFILE",
			"NoNewPrivileges", "CapabilityBoundingSet", "AmbientCapabilities", "ProtectSystem", "ProtectHome", "PrivateTmp",
			"PrivateDevices", "ProtectClock", "ProtectControlGroups", "ProtectHostname", "ProtectKernelLogs", "ProtectKernelModules",
			"ProtectKernelTunables", "ProtectProc", "RestrictAddressFamilies", "RestrictNamespaces", "RestrictRealtime",
			"RestrictSUIDSGID", "RemoveIPC", "LockPersonality", "MemoryDenyWriteExecute", "SystemCallArchitectures",
			"SystemCallFilter", "SystemCallErrorNumber",
		},
		"Install": {"WantedBy"},
	}
}

func parseUnit(text string) (unit, error) {
	u, section := unit{}, ""
	for i, line := range strings.Split(text, "\n") {
		line = strings.TrimSpace(line)
		switch {
		case line == "" || strings.HasPrefix(line, "#"):
		case strings.HasPrefix(line, "[") && strings.HasSuffix(line, "]"):
			section = line[1 : len(line)-1]
			if known()[section] == nil || u[section] != nil {
				return nil, fmt.Errorf("line %d: section %q is unknown or a second one", i+1, section)
			}
			u[section] = map[string][]string{}
		default:
			key, value, found := strings.Cut(line, "=")
			if !found || !slices.Contains(known()[section], key) {
				return nil, fmt.Errorf("line %d: %q is not a known directive of [%s]", i+1, line, section)
			}
			u[section][key] = append(u[section][key], value)
		}
	}
	return u, nil
}

func loadUnit(t *testing.T, name string) unit {
	t.Helper()
	u, err := parseUnit(string(read(t, filepath.Join(repository(t), systemdDir, name))))
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return u
}

func unitNames() []string {
	return []string{"aliquot-coordinator.service", "aliquot-regional@.service"}
}

func TestUnits(t *testing.T) {
	for _, name := range unitNames() {
		u := loadUnit(t, name)
		for section, directives := range known() {
			for _, d := range directives {
				if len(u[section][d]) == 0 {
					t.Errorf("%s: [%s] does not say %s", name, section, d)
				}
			}
		}
		for directive, want := range map[string]string{
			"DynamicUser": "yes", "NoNewPrivileges": "yes", "ProtectSystem": "strict", "CapabilityBoundingSet": "",
			"Restart": "on-failure", "StateDirectoryMode": "0700",
		} {
			if got := u["Service"][directive]; !slices.Equal(got, []string{want}) {
				t.Errorf("%s: %s is %q, want %q", name, directive, got, want)
			}
		}
	}
}

// TestSystemdAcceptsTheUnits asks systemd itself where it is installed; macOS and
// containers without it have only the test above.
func TestSystemdAcceptsTheUnits(t *testing.T) {
	analyze, err := exec.LookPath("systemd-analyze")
	if err != nil {
		t.Logf("only parsed: %v (Debian: systemd)", err)
		return
	}
	for _, name := range unitNames() {
		// The programs are not installed here: any other that is serves for the question.
		text := string(read(t, filepath.Join(repository(t), systemdDir, name)))
		text = strings.NewReplacer("/usr/local/lib/aliquot/coordinator", "/bin/true", "/usr/local/lib/aliquot/regional", "/bin/true").Replace(text)
		file := write(t, filepath.Join(t.TempDir(), strings.Replace(name, "@", "@us-east", 1)), text)
		if out, err := exec.Command(analyze, "verify", file).CombinedOutput(); err != nil || len(out) > 0 {
			t.Errorf("%s: %v\n%s", name, err, out)
		}
		threshold := fmt.Sprintf("--threshold=%d", maxExposure)
		if out, err := exec.Command(analyze, "security", "--no-pager", "--offline=yes", threshold, file).CombinedOutput(); err != nil {
			t.Errorf("%s: %v\n%s", name, err, out)
		}
	}
}

// TestMistakesInUnitsAreFound shows that parsing refuses what systemd passes over.
func TestMistakesInUnitsAreFound(t *testing.T) {
	for name, text := range map[string]string{
		"misspelt directive": "[Service]\nNoNewPrivilege=yes\n",
		"wrong section":      "[Unit]\nExecStart=/bin/true\n",
		"unknown section":    "[Servise]\n",
		"section twice":      "[Unit]\n[Unit]\n",
		"no section":         "Type=exec\n",
		"no value":           "[Service]\nType\n",
	} {
		if _, err := parseUnit(text); err == nil {
			t.Errorf("%s: %q was parsed", name, text)
		}
	}
}
