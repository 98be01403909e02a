package cli

import (
	"fmt"
	"strings"
	"testing"

	"aliquot/internal/rpc"
	aliquotv1 "aliquot/proto/aliquot/v1"
	"aliquot/proto/aliquot/v1/aliquotv1connect"
)

// rulesHistory goes on where version 2 was applied.
func rulesHistory(t *testing.T, coordinator, region, file string) {
	at := func(stdin string, args ...string) result {
		return command(t, stdin, append(args, "--addr", coordinator)...)
	}
	const denies = "rules:\n  - {id: shut, params: {limit: 0}}\n"
	at(denies, "rules", "apply", "-").want(t, exitError, "nothing changed: ", "--allow-deny-all")
	at(denies, "rules", "apply", "-", "--allow-deny-all", "--expected-version", "9").want(t, exitError, "nothing changed", "2 is in force")
	at("", "rules", "history").want(t, exitOK, "VERSION", "2        yes       me")
	at("", "rules", "history", "--limit", "1", "--diff").want(t, exitOK, "+    params: {capacity: 500")
	at("", "rules", "history", "-o", "json").want(t, exitOK, `"versions":[{"version":"2","author":"me"`)
	at("", "rules", "history", "-o", "yaml", "--before", "2").want(t, exitOK, `version: "1"`)
	at("", "rules", "show", "--version", "1").want(t, exitOK, "version 1 by", "capacity: 300")
	at("", "rules", "show", "--version", "9").want(t, exitError, "kept are 1 to 2")
	at("", "rules", "diff", "--from", "1").want(t, exitOK, "--- version 1", "+++ version 2", "+    params: {capacity: 500")
	at("rules: []\n", "rules", "diff", "-", "-o", "json").want(t, exitOK, `{"from":"version 2","to":`, `"diff":"--- version 2`)
	at("", "rules", "diff", file, "--to", "1").want(t, exitUsage, "FILE or --to")
	at("", "rules", "rollback", "one").want(t, exitUsage, "rules history")
	unkept := at("", "rules", "rollback", "9")
	unkept.want(t, exitError, "nothing changed", "kept are 1 to 2", "`aliquot rules history`")
	if strings.Contains(unkept.err, "aliquot rules show") {
		t.Errorf("two places to look: %s", unkept.err)
	}
	at("", "rules", "rollback", "1", "--expected-version", "1").want(t, exitError, "nothing changed", "2 is in force")
	at("", "rules", "rollback", "1", "--comment", "too many").want(t, exitOK, "version 3 is in force", "-    params: {capacity: 500")
	at("", "rules", "history").want(t, exitOK, "[text of version 1] too many")
	await(t, "300", func() string { return command(t, "", "check", "api_key=another", "--addr", region).out })
	stagedRules(t, coordinator, file)
	editRules(t, coordinator, region)
}

// editRules goes on where version 6 was applied.
func editRules(t *testing.T, coordinator, region string) {
	at := func(args ...string) result { return command(t, "", append(args, "--addr", coordinator)...) }
	checked := func(key string) func() string {
		return func() string { return command(t, "", "check", "api_key="+key, "--addr", region).out }
	}
	at("block", "sk_new", "--ttl", "1h", "--reason", "abuse").want(t, exitOK, `+ block "sk_new" until 20`, ": abuse", "version 7 is in force")
	await(t, "block list", checked("sk_new"))
	at("allow", "sk_new", "-o", "json").want(t, exitOK, `"version":"8"`)
	await(t, "allow_list", checked("sk_new"))
	at("unlist", "sk_new", "--comment", "settled").want(t, exitOK, "version 9 is in force")
	await(t, "per-key", checked("sk_new"))
	at("unlist", "sk_new").want(t, exitError, "nothing changed", `no entry blocks or allows "sk_new"`)
	at("override", "per-key", "sk_big", "--capacity", "7000", "--refill-rate", "12.5", "--author", "ann").want(t, exitOK, "version 10 is in force")
	await(t, "7000", checked("sk_big"))
	at("override", "per-key", "sk_big", "--remove").want(t, exitOK, "version 11 is in force")
	at("override", "nope", "sk_big", "--limit", "1", "--window", "1m").want(t, exitError, "nothing changed", "nope")
	at("override", "per-key").want(t, exitUsage, "override RULE PATTERN")
	at("block", "*").want(t, exitError, "nothing changed: ")
	at("block", "a", "--ttl", "0s").want(t, exitUsage, "ttl")
	at("entries", "history").want(t, exitOK, `block "sk_new": abuse`, "settled", `set the override of "sk_big" in per-key`, "by ann", `- override per-key "sk_big" (capacity 7000, refill_rate 12.5)`)
	at("entries", "history", "--limit", "1", "-o", "json").want(t, exitOK, `"entriesRevision":"5"`)
	at("entries", "list").want(t, exitOK, "no entries")
	at("entries", "remove", "tier", "pro").want(t, exitError, "nothing changed", "has no value above the file")
	for _, args := range [][]string{{"block"}, {"ban", "a"}, {"override", "a"}, {"block", "a", "b"}} {
		at(append([]string{"entries", "remove"}, args...)...).want(t, exitUsage)
	}
	haltedRules(t, coordinator, region)
}

// haltedRules goes on where version 11 was applied: a staged version denies what the
// one before allowed, so it does not stay.
func haltedRules(t *testing.T, coordinator, region string) {
	at := func(stdin string, args ...string) result {
		return command(t, stdin, append(args, "--addr", coordinator)...)
	}
	shown := at("", "rules", "show").out
	spoilt := strings.Replace(shown, `"sk_revoked_*"`, `"sk_revoked_*", "many_*"`, 1)
	if spoilt == shown {
		t.Fatalf("no block list in\n%s", shown)
	}
	limiter := aliquotv1connect.NewLimiterServiceClient(rpc.NewHTTPClient(), rpc.BaseURL(region))
	checks := &aliquotv1.CheckBatchRequest{}
	for i := range 200 {
		checks.Requests = append(checks.Requests, &aliquotv1.CheckRequest{Attributes: map[string]string{"api_key": fmt.Sprintf("many_%d", i)}})
	}
	decide := func() (modes string) {
		answer, err := limiter.CheckBatch(t.Context(), checks)
		if err != nil {
			t.Fatal(err)
		}
		for _, one := range answer.GetResults() {
			if got := one.GetResponse().GetMode(); !strings.Contains(modes, got) {
				modes += got + " "
			}
		}
		return "decided by " + modes + "."
	}
	await(t, "decided by store .", decide)
	at(spoilt, "rules", "apply", "-", "--stage-regions", "us-east").want(t, exitOK, "version 12 is in force in us-east only")
	await(t, "version 12, staged in us-east, was halted: us-east denies 100.0 %", func() string {
		decide()
		return at("", "rules", "show").err
	})
	at("", "rules", "history").want(t, exitOK, "13       yes       coordinator c", "[text of version 6] version 12 halted")
	await(t, "per-key", func() string { return command(t, "", "check", "api_key=many_1", "--addr", region).out })
	movedEntries(t, coordinator, region)
}

// movedEntries goes on where version 13 was applied: entries go to a file and back, and
// outlive a rollback.
func movedEntries(t *testing.T, coordinator, region string) {
	at := func(stdin string, args ...string) result {
		return command(t, stdin, append(args, "--addr", coordinator)...)
	}
	at("", "block", "sk_leaked*", "--ttl", "1h", "--reason", "in a public repository").want(t, exitOK, "version 14")
	at("", "override", "per-key", "sk_big", "--limit", "5", "--window", "1m30s").want(t, exitOK, "version 15")
	at("", "entries", "list").want(t, exitOK, `override per-key "sk_big"  limit 5, window 1m30s  per-key`, `block "sk_leaked*"`, "in a public repository")
	await(t, "by the override sk_big, an entry above the file (sk_big, by ", func() string { return command(t, "", "explain", "api_key=sk_big", "--addr", region).out })
	await(t, "block entry sk_leaked* until 20", func() string { return command(t, "", "explain", "api_key=sk_leaked_1", "--addr", region).out })
	file := at("", "entries", "export").out
	for _, want := range []string{"- kind: block", "pattern: sk_leaked*", "until: ", "rule: per-key", "window: 1m30s", "reason: in a public repository"} {
		if !strings.Contains(file, want) {
			t.Errorf("no %q in\n%s", want, file)
		}
	}
	at("", "rules", "rollback", "1").want(t, exitOK, "version 16")
	at("", "entries", "remove", "override", "per-key", "sk_big").want(t, exitOK, `- override per-key "sk_big"`, "version 17")
	at("", "entries", "remove", "block", "sk_leaked*").want(t, exitOK, "version 18")
	at(file, "entries", "import", "-").want(t, exitOK, `+ block "sk_leaked*" until`, `+ override per-key "sk_big" (limit 5, window 1m30s)`, "version 19")
	at(file, "entries", "import", "-", "--replace").want(t, exitOK, "version 19")
	if again := at("", "entries", "export").out; again != file {
		t.Errorf("%s\nwant\n%s", again, file)
	}
	gone := strings.ReplaceAll(file, "per-key", "per-kay")
	if got := at(gone, "entries", "import", "-", "--replace"); got.code != exitOK || !strings.Contains(got.err, `override per-kay "sk_big" is without effect: there is no rule "per-kay"`) {
		t.Errorf("%+v", got)
	}
	at("", "entries", "list").want(t, exitOK, "without effect")
	at("entries: []", "entries", "import", "-", "--replace").want(t, exitOK, "- block", "version 21")
	at("entries: [{kind: ban, pattern: a}]", "entries", "import", "-").want(t, exitError, "entry 1", `"ban" is not a kind of entry`)
	at("entrys: []", "entries", "import", "-").want(t, exitError, "no file of entries")
}

// stagedRules goes on where version 3 was applied.
func stagedRules(t *testing.T, coordinator, file string) {
	at := func(args ...string) result { return command(t, "", append(args, "--addr", coordinator)...) }
	at("rules", "apply", file, "--halt-above", "0.1").want(t, exitUsage, "--stage-regions")
	at("rules", "promote").want(t, exitError, "no version is staged")
	at("rules", "apply", file, "--stage-regions", "eu-west", "--promote-after", "1s").want(t, exitError, "promote_after")
	command(t, "rules: []", "rules", "apply", "-", "--stage-regions", "eu-west", "--addr", coordinator).want(t, exitError,
		"nothing changed", "cannot be staged", "is left out", "everywhere at once, without a stage")
	at("rules", "apply", file, "--stage-regions", "eu-west", "--promote-after", "1h").want(t, exitOK, "version 4 is in force in eu-west only")
	at("rules", "show").want(t, exitOK, "version 3 by", "version 4 is staged in eu-west until 20", "unless it is halted")
	at("rules", "apply", file).want(t, exitError, "promote or abort it first")
	at("rules", "abort", "3").want(t, exitError, "no roll-out of version 3")
	at("rules", "abort").want(t, exitOK, "version 4 is aborted; version 5")
	at("rules", "apply", file, "--stage-regions", "eu-west", "--halt-above", "0.2").want(t, exitOK, "version 6")
	at("rules", "show").want(t, exitOK, "version 6 is staged in eu-west until 'aliquot rules promote'")
	at("rules", "promote", "-o", "json").want(t, exitOK, `"version":"6"`)
	at("rules", "history").want(t, exitOK, "[text of version 3] version 4 aborted", "6        yes")
}
