package cluster

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"aliquot/budget"
	"aliquot/internal/testaddr"
)

// killDir tells a copy of the test program that it is a whole cluster, to be killed,
// and where its data is; killPorts are its addresses.
const (
	killDir   = "ALIQUOT_TEST_KILL_DIR"
	killPorts = "ALIQUOT_TEST_KILL_PORTS"
)

func TestMain(m *testing.M) {
	if dir := os.Getenv(killDir); dir != "" {
		fmt.Println("ended", runUntilKilled(dir, strings.Split(os.Getenv(killPorts), ",")))
		os.Exit(1) // nobody is meant to get here
	}
	os.Exit(m.Run())
}

// runUntilKilled runs three nodes in one process. It prints how many keys the first
// leader found, then each key that was acknowledged, and returns only with an error.
func runUntilKilled(dir string, addresses []string) error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	var nodes []*Node
	for i := range 3 {
		c := DefaultConfig()
		c.NodeID = fmt.Sprintf("c%d", i+1)
		c.DataDir = filepath.Join(dir, c.NodeID)
		c.RaftListen, c.GossipListen = addresses[2*i], addresses[2*i+1]
		c.Join = []string{addresses[1], addresses[3], addresses[5]}
		c.Regions, c.RulesYAML, c.Logger = []string{"us", "eu", "ap"}, testRules, testLogger()
		n, err := Start(ctx, c)
		if err != nil {
			return err
		}
		nodes = append(nodes, n)
	}
	for said := false; ; { // a busy machine may elect another leader in between
		leader, err := firstLeader(ctx, nodes)
		if err != nil {
			return err
		}
		epoch, err := leader.CreateEpoch(ctx)
		for next := hotKeys(leader); err == nil; next++ {
			if !said {
				fmt.Println("found", next)
				said = true
			}
			if err = leader.CommitPlan(ctx, budget.Plan{Epoch: epoch, Changes: []budget.Entry{third(next)}}); err == nil {
				fmt.Println("acknowledged", next+1)
			}
		}
	}
}

// firstLeader waits for a node that has just taken charge.
func firstLeader(ctx context.Context, nodes []*Node) (*Node, error) {
	for {
		for _, n := range nodes {
			select {
			case leads := <-n.LeaderCh():
				if leads {
					return n, nil
				}
			case err := <-n.Failed():
				return nil, err
			case <-ctx.Done():
				return nil, ctx.Err()
			case <-time.After(10 * time.Millisecond):
			}
		}
	}
}

// All nodes of a cluster are killed at once, kill -9 at any moment, and started again
// on the same directories: it recovers by itself, with all that it acknowledged.
func TestWholeClusterKilled(t *testing.T) {
	t.Parallel()
	const rounds = 5
	dir, addresses := t.TempDir(), testaddr.Ports(t, 6)
	acknowledged := 0
	for round := range rounds + 1 {
		before := acknowledged
		found, last := killed(t, dir, addresses, rand.N(500*time.Millisecond))
		// One command may have been committed that nobody heard the end of.
		if found != before && found != before+1 {
			t.Fatalf("round %d: %d keys were acknowledged, %d are there", round, before, found)
		}
		if acknowledged = max(last, found); round == rounds && acknowledged < rounds {
			t.Errorf("only %d commits in all rounds", acknowledged)
		}
		t.Logf("round %d: found %d, acknowledged %d more", round, found, acknowledged-found)
	}
}

// killed starts the cluster, lets it write for a while after it acknowledged something, and
// kills it. It returns how many keys it found and how many it had acknowledged.
func killed(t *testing.T, dir string, addresses []string, after time.Duration) (found, last int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, os.Args[0])
	cmd.Env = append(os.Environ(), killDir+"="+dir, killPorts+"="+strings.Join(addresses, ","))
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	found = -1
	for lines := bufio.NewScanner(out); lines.Scan(); {
		var n int
		if _, err := fmt.Sscanf(lines.Text(), "found %d", &n); err == nil {
			found = n
		} else if _, err := fmt.Sscanf(lines.Text(), "acknowledged %d", &n); err == nil {
			if last == 0 {
				time.AfterFunc(after, cancel) // which is SIGKILL
			}
			last = n
		} else {
			t.Errorf("the cluster said %q", lines.Text())
		}
	}
	var exit *exec.ExitError
	if err := cmd.Wait(); !errors.As(err, &exit) || exit.ExitCode() != -1 {
		t.Errorf("the cluster was not killed, it ended: %v", err)
	}
	if last == 0 {
		t.Fatal("the cluster did not recover")
	}
	return found, last
}
