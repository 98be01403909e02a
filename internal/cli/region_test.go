package cli

import "testing"

func TestRegionCommands(t *testing.T) {
	at := coordinators(t)        // of one region, us, whose daemon does not run
	for _, address := range at { // each node hears of the leader and of the first regions in its own time
		await(t, "us", func() string { return command(t, "", "region", "list", "--addr", address).out })
		await(t, "yes", func() string { return command(t, "", "cluster", "members", "--addr", address).out })
	}
	command(t, "", "region", "list", "--addr", at["c2"], "-o", "json").want(t, exitOK, `"name":"us"`, `"floor":1`, `"status":"active"`)
	command(t, "", "region", "add", "eu", "--weight", "3", "--addr", at["c3"]).want(t, exitOK, "REGION", "eu", "joining", "3")
	command(t, "", "region", "add", "eu", "--addr", at["c1"]).want(t, exitError, "takes part already", "already_exists")
	command(t, "", "region", "weight", "eu", "2", "--addr", at["c1"], "-o", "yaml").want(t, exitOK, "weight: 2")
	command(t, "", "region", "drain", "us", "--addr", at["c2"]).want(t, exitError, "last region", "add another one first")
	command(t, "", "region", "fence", "eu", "--dead", "--addr", at["c2"]).want(t, exitOK, "eu", "fenced")
	command(t, "", "region", "drain", "mars", "--addr", at["c1"]).want(t, exitError, "not_found", `"us" "eu"`)

	command(t, "", "region", "add", "EU!", "--addr", at["c1"]).want(t, exitError, "lower-case")
	command(t, "", "region", "fence", "us", "--addr", at["c1"]).want(t, exitUsage, "say --dead", "region drain us")
	command(t, "", "region", "weight", "eu", "heavy").want(t, exitUsage, "whole number")
	command(t, "", "region", "weight", "eu", "0", "--addr", at["c1"]).want(t, exitError, "1 to 1000")
	command(t, "", "region", "add").want(t, exitUsage, "region add NAME")
}
