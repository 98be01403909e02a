package cli

import (
	"testing"

	"google.golang.org/protobuf/encoding/protojson"

	aliquotv1 "aliquot/proto/aliquot/v1"
)

func TestExplainUsage(t *testing.T) {
	for _, args := range [][]string{
		{"explain"}, {"explain", "--attr", "a=1", "--decision", "x"}, {"explain", "--attr", "a"}, {"explain", "a"}, {"explain", "a=1", "--decision", "x"},
		{"explain", "--attr", "a=1", "--costs", "tokens=many"},
	} {
		command(t, "", args...).want(t, exitUsage, "--help")
	}
	command(t, "", "explain", "--attr", "a=1", "--addr", unused(t)).want(t, exitError, "connection refused")
}

// explainChecks is a part of TestAgainstARealCluster.
func explainChecks(t *testing.T, region string) {
	at := func(args ...string) result { return command(t, "", append(args, "--addr", region)...) }
	for range 3 {
		var told result
		await(t, "allowed (store) in us-east", func() string {
			told = at("explain", "--attr", "api_key=told", "--cost", "90")
			return told.out
		})
		told.want(t, exitOK, "rule per-key", "lease live", "token_bucket of 300, window 3s, unit requests", "33.3% of the rate", "cold: the floor",
			"there is 100 of 100, refilled at 33.33/s; remaining here 10 (store)")
	}
	var answer aliquotv1.CheckResponse
	// Another client where a busy machine was slower than the bucket refills.
	denied := byTheStore(t, func(client string) result {
		at("check", "api_key="+client, "--cost", "100")
		checked := at("check", "api_key="+client, "--cost", "90", "-o", "json")
		if err := protojson.Unmarshal([]byte(checked.out), &answer); err != nil {
			t.Fatalf("%v in %s", err, checked.out)
		}
		if checked.code != exitDenied {
			return result{}
		}
		return at("explain", "--decision", answer.GetDecisionId())
	})
	denied.want(t, exitOK, "denied (store) in us-east", "tokens are missing of the cost of 90", "retry   after ")
	at("explain", "--decision", answer.GetDecisionId()+"zzz").want(t, exitError, "not_found", "no such denial")
	at("explain", "--attr", "api_key=told", "--cost", "301").want(t, exitOK, "retry   never: the cost of 301 is above the limit's capacity of 300")
	at("explain", "--attr", "api_key=sk_revoked_1").want(t, exitOK, "denied (block_list)", "blacklist entry sk_revoked_*", "the blacklist decides before any rule")
	at("explain", "api_key=told", "-o", "yaml").want(t, exitOK, "rateShare: ", "retryBasis: ")
	await(t, "hot, generation ", func() string {
		at("check", "api_key=told2", "--cost", "30")
		return at("explain", "--attr", "api_key=told2").out
	})
	await(t, "eu-west holds ", func() string { return at("explain", "--attr", "api_key=told2").out })
}
