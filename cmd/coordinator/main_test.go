package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"aliquot/internal/config"
)

func TestCommandLine(t *testing.T) {
	bad := filepath.Join(t.TempDir(), "bad.yaml")
	if err := os.WriteFile(bad, []byte("node-id: c1\nlissten: 1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	wrong := filepath.Join(t.TempDir(), "wrong.yaml")
	if err := os.WriteFile(wrong, []byte("node-id: c1\nlog-level: loud\nraft-multiplier: 70\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name    string
		args    []string
		environ []string
		code    int
		want    string
	}{
		{"help", []string{"--help"}, nil, exitOK, "--bootstrap-expect"},
		{"version", []string{"--version"}, nil, exitOK, "aliquot coordinator " + config.Release},
		{"unknown flag", []string{"--nope"}, nil, exitUsage, "unknown flag: --nope\n"},
		{"misspelt flag", []string{"--nodeid=c1"}, nil, exitUsage, "unknown flag: --nodeid; did you mean --node-id?"},
		{"argument", []string{"start"}, nil, exitUsage, `unexpected argument "start"`},
		{"no node id", []string{"--data-dir=x"}, nil, exitUsage, "--node-id"},
		{"log level", []string{"--log-level=loud"}, nil, exitUsage, "--log-level"},
		{"config file", []string{"--config", bad}, nil, exitUsage, `bad.yaml:2:1: unknown field "lissten"; did you mean "listen"?`},
		{"config file by environment", nil, []string{"ALIQUOT_CONFIG=" + bad}, exitUsage, "bad.yaml:2:1"},
		{"environment", nil, []string{"ALIQUOT_RAFT_MULTIPLIER=x"}, exitUsage, "ALIQUOT_RAFT_MULTIPLIER"},
		{"misspelt variable", nil, []string{"ALIQUOT_LOG_LEVLE=debug"}, exitUsage, "environment ALIQUOT_LOG_LEVLE: no program reads it; did you mean ALIQUOT_LOG_LEVEL?"},
		{"wrong word in the file", []string{"--config", wrong}, nil, exitUsage, `wrong.yaml:2:12: --log-level "loud": use debug, info, warn or error`},
		{"wrong number in the file", []string{"--config", wrong, "--log-level=info"}, nil, exitUsage, `wrong.yaml:3:18: --raft-multiplier 70: give 1 to 10`},
		{"wrong word in the environment", []string{"--config", wrong}, []string{"ALIQUOT_LOG_LEVEL=noisy"}, exitUsage, `environment ALIQUOT_LOG_LEVEL: --log-level "noisy"`},
		{"open to the world", []string{"--node-id=c1", "--data-dir=x", "--listen=0.0.0.0:7400"}, nil, exitUsage, "--insecure"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var stdout, stderr strings.Builder
			if code := run(c.args, c.environ, &stdout, &stderr); code != c.code {
				t.Errorf("exit code %d, want %d", code, c.code)
			}
			if all := stdout.String() + stderr.String(); !strings.Contains(all, c.want) {
				t.Errorf("printed %q\nwant %q in it", all, c.want)
			}
		})
	}
}
