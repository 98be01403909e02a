package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A snapshot is saved by one coordinator and restored by another one. The rules, an override and a block are as they
// were, and what was set since is gone.
func TestSnapshot(t *testing.T) {
	at := coordinators(t)
	for _, address := range at {
		await(t, "yes", func() string { return command(t, "", "cluster", "members", "--addr", address).out })
	}
	file := func(name string) string { return filepath.Join(t.TempDir(), name) }
	command(t, someRules, "rules", "apply", "-", "--addr", at["c1"]).want(t, exitOK)
	command(t, "", "block", "sk_bad", "--reason", "abuse", "--addr", at["c1"]).want(t, exitOK)
	command(t, "", "override", "per-key", "sk_big", "--capacity", "900", "--refill-rate", "9", "--addr", at["c1"]).want(t, exitOK)
	backup := file("backup.aqs")
	await(t, "rules version 3 and 2 entries", func() string { return command(t, "", "snapshot", "save", backup, "--addr", at["c2"]).out })
	if info, err := os.Stat(backup); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the file: %v, %v", info.Mode(), err)
	}
	saved := command(t, "", "entries", "list", "--addr", at["c2"]).out
	rulesFile, entries := file("rules.yaml"), file("entries.yaml")
	command(t, "", "snapshot", "inspect", backup, "--rules", rulesFile, "--entries", entries).want(t, exitOK, "rules version 3", "2 entries", "us", "active")
	if text, err := os.ReadFile(rulesFile); err != nil || string(text) != someRules {
		t.Errorf("rules of the file: %q, %v", text, err)
	}
	if text, err := os.ReadFile(entries); err != nil || !strings.Contains(string(text), "sk_big") {
		t.Errorf("entries of the file: %q, %v", text, err)
	}

	command(t, strings.Replace(someRules, "300", "30", 1), "rules", "apply", "-", "--addr", at["c3"]).want(t, exitOK)
	command(t, "", "unlist", "sk_bad", "--addr", at["c3"]).want(t, exitOK)
	command(t, "", "allow", "sk_new", "--addr", at["c3"]).want(t, exitOK)
	show := func() string { return command(t, "", "rules", "show", "--addr", at["c2"]).err } // which names the version
	await(t, "version 6 ", show)
	command(t, "", "snapshot", "restore", backup, "--addr", at["c2"]).want(t, exitOK, "version 8 is in force, with 2 entries")
	await(t, "version 8 ", show)
	if now := command(t, "", "rules", "show", "--addr", at["c2"]).out; now != someRules {
		t.Errorf("rules after the restore:\n%s", now)
	}
	if now := command(t, "", "entries", "list", "--addr", at["c2"]).out; now != saved {
		t.Errorf("entries after the restore:\n%s\nwere\n%s", now, saved)
	}

	text, err := os.ReadFile(backup)
	if err != nil {
		t.Fatal(err)
	}
	text[len(text)-1] ^= 1
	command(t, string(text), "snapshot", "restore", "-", "--addr", at["c2"]).want(t, exitError, "<stdin>", "its checksum does not match")
	command(t, "", "snapshot", "inspect", rulesFile).want(t, exitError, "rules.yaml: this is not a complete snapshot file")
	command(t, "", "snapshot", "save", file("x"), "--addr", unused(t)).want(t, exitError, "connection refused", "aliquot dev")
	command(t, "", "snapshot", "restore", backup, "--addr", unused(t)).want(t, exitError, "connection refused", "aliquot dev")
}
