package attack

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"aliquot/internal/testaddr"
)

// peerAttacks are what a stranger or a broken peer sends to a cluster that all of them share.
var peerAttacks = []struct {
	name string
	run  func(p *peers, t *testing.T) (outcome string)
}{
	{"a Redis that answers nonsense", (*peers).nonsense},
	{"state files that are damaged", (*peers).stateFiles},
	{"web pages of other names", (*peers).pages},
	{"clients that pretend to be others", (*peers).pretenders},
	{"joins for the seats of live voters", (*peers).joins},
	{"forged messages to the Raft port", (*peers).forgedRaft},
	{"silent connections to the Raft port", (*peers).silentRaft},
	{"an answer of a term that no election reaches", (*peers).forgedAnswers},
	{"messages that announce 4 GiB", (*peers).announcements},
	{"forged gossip", (*peers).forgedGossip}, // after it, strangers do not hear who is in the cluster
	{"changes of rules in a hurry", (*peers).hurriedWriters},
	{"ids of decisions", (*peers).decisions},
	{"state exchanges that are as large as they may be", (*peers).heavyExchanges},
	{"32 MiB to every method by every protocol", (*peers).everyMethod},
	{"a restart of all coordinators after these", (*peers).restart},
	{"files that others can read", (*peers).files},
}

// TestPeers: after each of these attacks the three coordinators and the regional daemon run, the cluster commits, the
// lease is kept, a good client is served by the store, and no daemon took more memory than is allowed.
func TestPeers(t *testing.T) {
	p := startPeers(t)
	for _, a := range peerAttacks {
		t.Run(a.name, func(t *testing.T) {
			p.under(t, a.name, func() string { return a.run(p, t) })
			p.commits(t)
		})
	}
}

// peers are three coordinators, and a regional daemon whose Redis can answer nonsense. The Redis gives it only the
// rights that docs/reference/stores.md names.
type peers struct {
	*cluster
	nodes   []*voter
	redis   *hostile
	redisAt string
	state   string // the regional daemon's state file
	writes  int    // so far
}

// voter is one of the coordinators.
type voter struct {
	id, at, raft, gossip, ops, dir string
	args                           []string
	cmd                            *exec.Cmd
}

const peerRules = `rules:
  - {id: big, key: [api_key], match: {attributes: {plan: big}}, params: {capacity: 1000000, refill_rate: 1000000}, local_cache: false}
  - {id: open, key: [api_key], match: {attributes: {plan: open}}, params: {capacity: 1000000, refill_rate: 1000000}, local_cache: false, on_redis_failure: open}
  - {id: closed, key: [api_key], match: {attributes: {plan: closed}}, params: {capacity: 1000000, refill_rate: 1000000}, local_cache: false, on_redis_failure: closed}
  - {id: sealed, match: {endpoint_regex: "^/v1/"}, params: {limit: 0}}
  - {id: few, key: [api_key], match: {endpoint_regex: "^/few$"}, params: {capacity: 8, refill_rate: 0.001}, enforcement: strict}
`

const goodCheck = `{"attributes":{"api_key":"good","plan":"big"}}`

func startPeers(t *testing.T) *peers {
	t.Helper()
	dir := t.TempDir()
	defer syscall.Umask(syscall.Umask(0)) // daemons must not rely on it
	file := filepath.Join(dir, "rules.yaml")
	if err := os.WriteFile(file, []byte(peerRules), 0o600); err != nil {
		t.Fatal(err)
	}
	at := testaddr.Ports(t, 16)
	host, port, _ := net.SplitHostPort(at[0])
	p := &peers{redisAt: at[0], state: filepath.Join(dir, "state.json")}
	run(t, dir, "redis-server", "--port", port, "--bind", host, "--save", "", "--dir", dir)
	p.cluster = &cluster{}
	p.until(t, "Redis has a user for the daemon", func() bool {
		return onConnection(at[0], redisSays("ACL SETUSER aliquot on >secret ~aq:* resetchannels -@all +eval +evalsha +info +get +set +append +time +ping +hello +auth")) == "+OK"
	})
	var gossips []string
	for i := range 3 {
		of := at[1+4*i : 5+4*i]
		v := &voter{id: fmt.Sprintf("c%d", i+1), at: of[0], raft: of[1], gossip: of[2], ops: of[3]}
		v.dir = filepath.Join(dir, v.id)
		gossips = append(gossips, v.gossip)
		v.args = []string{"--node-id", v.id, "--regions", "us,eu", "--rules", file, "--data-dir", v.dir,
			"--listen", v.at, "--raft-listen", v.raft, "--gossip-listen", v.gossip, "--ops-listen", v.ops}
		p.nodes = append(p.nodes, v)
	}
	for _, v := range p.nodes {
		v.args = append(v.args, "--join", strings.Join(gossips, ","))
		v.cmd = run(t, dir, filepath.Join(bin, "coordinator"), v.args...)
	}
	p.redis = startHostile(t, at[0])
	p.cluster = &cluster{coordinatorAt: p.nodes[0].at, coordinatorOps: p.nodes[0].ops, at: at[13], grpc: at[14], ops: at[15], dir: dir, goodCheck: goodCheck, t: t}
	p.regional = run(t, dir, filepath.Join(bin, "regional"), "--region", "us", "--coordinators", p.nodes[0].at+","+p.nodes[1].at+","+p.nodes[2].at,
		"--redis", "redis://aliquot:secret@"+p.redis.listener.Addr().String(), "--state-file", p.state, "--listen", p.at, "--grpc-listen", p.grpc, "--ops-listen", p.ops)
	p.others()
	p.until(t, "the region holds a lease", func() bool { return p.metric("aliquot_lease_remaining_seconds") > 0 })
	return p
}

// others keeps the cluster's list of watched coordinators up to date.
func (p *peers) others() {
	p.coordinator, p.cluster.watched = p.nodes[0].cmd, []*exec.Cmd{p.nodes[1].cmd, p.nodes[2].cmd}
}

// asked calls a method of one coordinator's, and returns its JSON.
func (v *voter) asked(t *testing.T, method, body string, into any) (status int, text string) {
	t.Helper()
	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+v.at+"/aliquot.v1."+method, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	out, err := http.DefaultClient.Do(r)
	if err != nil {
		return 0, err.Error()
	}
	defer out.Body.Close()
	data, _ := io.ReadAll(out.Body)
	if into != nil {
		_ = json.Unmarshal(data, into)
	}
	return out.StatusCode, string(data)
}

// status is what a coordinator says of its cluster.
type status struct {
	State, RulesVersion string
	Term                uint64 `json:",string"`
	Members             []struct{ NodeID, Suffrage string }
}

func (v *voter) status(t *testing.T) (s status) {
	v.asked(t, "ClusterService/GetStatus", "{}", &s)
	return s
}

// leader waits for a coordinator that leads, and returns it with the others.
func (p *peers) leader(t *testing.T) (leader *voter, followers []*voter) {
	t.Helper()
	p.until(t, "a coordinator leads", func() bool {
		leader, followers = nil, nil
		for _, v := range p.nodes {
			if v.status(t).State == "leader" {
				leader = v
			} else {
				followers = append(followers, v)
			}
		}
		return leader != nil && len(followers) == 2
	})
	return leader, followers
}

// write applies rules through a coordinator. written is their version, empty if the answer is an error.
func (p *peers) write(t *testing.T, v *voter) (written, text string) {
	t.Helper()
	p.writes++
	body, err := json.Marshal(map[string]string{"yaml": fmt.Sprintf("%s# write %d\n", peerRules, p.writes)})
	if err != nil {
		t.Fatal(err)
	}
	var out struct{ Version string }
	code, text := v.asked(t, "RuleService/ApplyRules", string(body), &out)
	if code == http.StatusOK && out.Version == "" {
		t.Errorf("a write through %s has an empty answer", v.id)
	}
	return out.Version, text
}

// commits fails the test unless a write through each coordinator is in force, as all of them say, and three voters are
// left.
func (p *peers) commits(t *testing.T) {
	t.Helper()
	for _, v := range p.nodes {
		var written, text string
		p.until(t, "a write through "+v.id, func() bool {
			written, text = p.write(t, v)
			return written != ""
		})
		for _, other := range p.nodes {
			p.until(t, other.id+" has what was written through "+v.id+" ("+text+")", func() bool { return other.status(t).RulesVersion == written })
		}
	}
	s := p.nodes[0].status(t)
	for _, m := range s.Members {
		if m.Suffrage != "voter" {
			t.Errorf("%s is a %s", m.NodeID, m.Suffrage)
		}
	}
	if len(s.Members) != 3 {
		t.Errorf("the members are %v", s.Members)
	}
}

// refused is how many Raft messages a coordinator refused for a reason.
func (v *voter) refused(reason string) (n float64) {
	return metricOf(v.ops, "aliquot_raft_refused_total", `reason="`+reason+`"`)
}

// kill ends a coordinator without warning.
func (v *voter) kill() {
	_ = v.cmd.Process.Kill()
	_ = v.cmd.Wait()
}

// restart kills all coordinators and starts them again with what they have on disk.
func (p *peers) restart(t *testing.T) string {
	for _, v := range p.nodes {
		v.kill()
	}
	for _, v := range p.nodes {
		v.cmd = run(p.t, p.dir, filepath.Join(bin, "coordinator"), v.args...)
	}
	p.others()
	leader, _ := p.leader(t)
	p.until(t, "the region's lease is renewed", func() bool { return p.metric("aliquot_lease_remaining_seconds") > 8 }) // of 10
	return leader.id + " leads"
}

// joins asks for the seats of the two followers, as a stranger can who reaches the RPC port.
func (p *peers) joins(t *testing.T) string {
	leader, followers := p.leader(t)
	answers := map[string]int{}
	for _, v := range followers {
		for _, at := range []string{v.raft, "127.0.0.1:1"} {
			code, text := leader.asked(t, "ClusterService/Join", fmt.Sprintf(`{"nodeId":%q,"instanceId":"00000009","raftAddress":%q}`, v.id, at), nil)
			if code != http.StatusBadRequest && code != http.StatusConflict {
				t.Errorf("a join for %s at %s: %d %s", v.id, at, code, text)
			}
			answers[fmt.Sprint(code)]++
		}
	}
	return fmt.Sprint(answers)
}
