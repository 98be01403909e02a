// Package aliquot_test holds the rules of the house: who may import whom, what a
// pure package may not touch, and how tests may wait.
package aliquot_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// modulePath is the module's path, as go.mod has it.
const modulePath = "aliquot"

// row says what a package of this module may import. aliquot lists packages of the
// module (a trailing /... covers a tree), outside lists modules, by prefix; the
// standard library is allowed unless banned names it.
type row struct {
	aliquot []string
	outside []string
	banned  []string // of the standard library, for the pure packages
}

// pure packages compute values from values: no clock, no chance, no I/O.
var pure = []string{"math/rand", "math/rand/v2", "crypto/rand", "os", "os/exec", "net", "net/http", "log", "log/slog", "context", "syscall"}

// pureHTTP packages do so with net/http's types.
var pureHTTP = slices.DeleteFunc(slices.Clone(pure), func(p string) bool { return p == "net/http" })

// anyModule lets a package use whatever go.mod requires.
var anyModule = []string{""}

// houses is the whole table: a package without a row fails the test, so that every
// new folder has its place thought about.
var houses = map[string]row{
	"budget":               {aliquot: []string{"internal/hashslot"}, banned: pure},
	"budget/promise":       {aliquot: []string{"budget"}, banned: pure},
	"limit":                {banned: pure},
	"internal/entitlement": {aliquot: []string{"internal/prefetch", "budget", "limit"}, banned: pure},
	"internal/prefetch":    {aliquot: []string{"budget", "limit"}, banned: pure},
	"internal/roster":      {aliquot: []string{"budget"}, banned: pure},
	// A daemon's memory of its store's records.
	"internal/recall": {aliquot: []string{"budget", "limit"}, banned: pure},
	// Whether a daemon that comes back finds its place.
	"internal/place": {banned: pure},
	// A store's clock by the readings of it.
	"internal/storeclock": {aliquot: []string{"budget", "limit"}, banned: pure},
	"internal/penalty":    {aliquot: []string{"budget"}, banned: pure},
	"internal/replay":     {aliquot: []string{"limit", "rules"}, banned: pure},
	// A YAML file with the place of every value.
	"rules/source": {outside: []string{"github.com/goccy/go-yaml"}, banned: pure},
	// Texts, globs and regular expressions, compared with the attributes of requests.
	"rules/pattern": {aliquot: []string{"rules/source"}, banned: pure},
	// A rules file as it was written, before anything inherits.
	"rules/document": {aliquot: []string{"limit", "rules/pattern", "rules/source"}, banned: pure},
	"rules":          {aliquot: []string{"limit", "rules/document", "rules/pattern", "rules/source"}, banned: pure},
	// The messages of a check as bytes, without the generated code.
	"internal/checkwire": {aliquot: []string{"rules", "proto/aliquot/v1"}, outside: []string{"google.golang.org/protobuf"}, banned: pure},
	// Envoy's rate limit protocol.
	"internal/envoyrls": {aliquot: []string{"rules"}, outside: []string{"github.com/envoyproxy/go-control-plane/envoy", "google.golang.org/protobuf"}},
	// The messages between regions and coordinators, in the terms of the protocol.
	"internal/leasewire": {aliquot: []string{"budget", "internal/hashslot", "limit", "proto/aliquot/v1"}, banned: pure},
	// Bounds of log lines.
	"internal/ratelog": {banned: pure},
	// The needs of an installation.
	"internal/capacity": {banned: pure},
	// Configurations of another limiter.
	"internal/envoyimport": {aliquot: []string{"rules", "rules/source"}, banned: pure},
	// The parts of a Redis Cluster, for who keeps records there and who plans for regions that do.
	"internal/hashslot": {banned: pure},
	"lua":               {aliquot: []string{"budget", "internal/hashslot", "limit", "internal/roster"}, outside: []string{"github.com/redis/go-redis/v9"}},
	// A real redis-server for tests.
	"lua/redistest": {outside: []string{"github.com/redis/go-redis/v9"}},
	"internal/sim":  {aliquot: []string{"internal/place", "internal/sim/faults", "internal/sim/oracle", "internal/sim/rule", "internal/sim/shell", "internal/sim/site", "internal/sim/timeline", "internal/entitlement", "budget", "limit"}},
	// A world's regions: their stores and daemons.
	"internal/sim/site": {aliquot: []string{"internal/boottime", "internal/entitlement", "internal/prefetch", "internal/recall", "internal/roster", "internal/sim/faults", "internal/sim/oracle", "internal/sim/rule", "internal/sim/shell", "internal/sim/timeline", "budget", "limit"}},
	// The plans of a world, and its random numbers.
	"internal/sim/timeline": {},
	// A rule, with its limits by the versions of the rules.
	"internal/sim/rule": {aliquot: []string{"internal/entitlement", "internal/sim/oracle", "internal/sim/timeline", "budget", "limit"}},
	// The kinds of a world's trouble.
	"internal/sim/faults": {aliquot: []string{"internal/sim/timeline"}},
	// The tokens that clients got, counted without the ledger and the records.
	"internal/sim/oracle": {aliquot: []string{"internal/prefetch", "internal/sim/shell", "limit"}, banned: pure},
	// The canonical form of a state of a search.
	"internal/sim/check/form": {aliquot: []string{"budget", "limit"}, banned: pure},
	"internal/sim/check":      {aliquot: []string{"internal/sim/check/form", "internal/sim/check/search", "internal/sim/check/store", "internal/sim/shell", "internal/prefetch", "internal/entitlement", "budget", "limit"}},
	"internal/sim/check/run":  {aliquot: []string{"internal/sim/check", "internal/sim/check/search"}},
	// A region's store with one record.
	"internal/sim/check/store": {aliquot: []string{"internal/sim/check/form", "internal/sim/shell", "budget", "limit"}, banned: pure},
	// Everything that can happen to a state, breadth first.
	"internal/sim/check/search": {aliquot: []string{"internal/sim/check/form"}},
	"internal/sim/shell":        {aliquot: []string{"budget", "limit"}, banned: pure},
	"internal/sim/fleet":        {aliquot: []string{"budget"}, banned: pure},
	"internal/sim/run":          {aliquot: []string{"internal/sim", "internal/sim/faults", "internal/sim/compare"}},
	// Other limiters in the simulator's world.
	"internal/sim/compare":     {aliquot: []string{"budget", "limit", "internal/sim", "internal/sim/site"}},
	"internal/sim/compare/run": {aliquot: []string{"internal/sim/compare"}},
	// Bugs put into the sources above; what is built from them is the worker.
	"internal/sim/plants":        {aliquot: []string{"limit"}},
	"internal/sim/plants/run":    {aliquot: []string{"internal/sim/plants"}},
	"internal/sim/plants/worker": {aliquot: []string{"limit", "internal/sim", "internal/sim/check", "internal/sim/check/search"}},

	// Loopback addresses, logs and metrics for tests.
	"internal/testaddr":    {},
	"internal/testlog":     {},
	"internal/testmetrics": {outside: []string{"github.com/prometheus/client_golang"}},
	// Values of before, for tests.
	"internal/pinned": {},
	// Files that are replaced in one step.
	"internal/durable":  {},
	"internal/boottime": {aliquot: []string{"budget"}, outside: []string{"golang.org/x/sys"}},
	// The stacks of new goroutines.
	"internal/stack": {banned: pure},
	"internal/rpc":   {aliquot: []string{"proto/..."}, outside: []string{"connectrpc.com/connect", "golang.org/x/net/netutil", "google.golang.org/protobuf"}},
	// How many connections the daemons' listeners have, which clients have no use for.
	"internal/rpc/connections": {aliquot: []string{"internal/rpc"}, outside: []string{"github.com/prometheus/client_golang"}},
	"internal/config":          {aliquot: []string{"proto/..."}, outside: anyModule},

	// HTTP in and out, for regional and client alike.
	"internal/identity":   {banned: pureHTTP},
	"internal/httpanswer": {aliquot: []string{"proto/aliquot/v1"}, banned: pureHTTP},
	// For services of others: it must not need the daemons.
	"client":         {aliquot: []string{"internal/httpanswer", "internal/identity", "internal/rpc", "proto/aliquot/..."}, outside: anyModule},
	"client/example": {aliquot: []string{"client"}},

	// Panics that end a call and not the daemon.
	"regional/internal/background": {aliquot: []string{"internal/ratelog"}, outside: []string{"connectrpc.com/connect", "github.com/prometheus/client_golang"}},
	// The modes of decisions: what decided a request, in a word.
	"regional/internal/modes": {},
	// The metrics of a regional daemon.
	"regional/internal/telemetry": {aliquot: []string{"internal/penalty", "limit", "regional/internal/modes"}, outside: []string{"github.com/prometheus/client_golang", "github.com/sony/gobreaker/v2"}},
	// The rules and the configuration in force, and what the rules were before.
	"regional/internal/policy": {aliquot: []string{"internal/penalty", "internal/entitlement", "internal/storeclock", "budget", "limit", "rules", "regional/internal/telemetry"}},
	// The charges of a request, and the tokens that a daemon holds in memory.
	"regional/internal/charge": {aliquot: []string{"internal/penalty", "internal/prefetch", "internal/recall", "internal/entitlement", "budget", "limit", "lua", "rules", "regional/internal/modes", "regional/internal/policy"}},
	// The guard before the store: deadlines, the breaker, shared calls, retries.
	"regional/internal/storeguard": {aliquot: []string{"internal/stack", "internal/storeclock", "budget", "limit", "lua", "regional/internal/background", "regional/internal/charge", "regional/internal/telemetry", "regional/store"}, outside: []string{"github.com/redis/go-redis/v9", "github.com/sony/gobreaker/v2"}},

	// The right of this region to spend.
	"regional/internal/authority": {aliquot: []string{"internal/entitlement", "internal/prefetch", "internal/storeclock", "budget", "limit", "regional/internal/charge", "regional/internal/policy", "regional/internal/storeguard", "regional/internal/telemetry"}, outside: []string{"github.com/prometheus/client_golang"}},
	// How keys behave: which are hot, and whose clients are held back.
	"regional/internal/keywatch": {aliquot: []string{"internal/penalty", "internal/ratelog", "budget", "rules", "regional/internal/background", "regional/internal/charge", "regional/internal/modes", "regional/internal/policy", "regional/internal/telemetry"}, outside: []string{"github.com/prometheus/client_golang"}},
	// From a request to its decision.
	"regional/internal/engine": {aliquot: []string{"internal/boottime", "internal/identity", "internal/penalty", "internal/prefetch", "budget", "limit", "lua", "rules", "regional/internal/authority", "regional/internal/background", "regional/internal/charge", "regional/internal/emergency", "regional/internal/keywatch", "regional/internal/modes", "regional/internal/policy", "regional/internal/storeguard", "regional/internal/telemetry"}},
	// Decisions as answers, the denials among them, and why.
	"regional/internal/explain": {aliquot: []string{"internal/checkwire", "internal/httpanswer", "internal/penalty", "internal/prefetch", "internal/rpc", "budget", "limit", "rules", "proto/aliquot/...", "regional/internal/authority", "regional/internal/charge", "regional/internal/engine", "regional/internal/modes", "regional/internal/policy", "regional/internal/sample", "regional/internal/telemetry"}, outside: []string{"connectrpc.com/connect", "google.golang.org/protobuf"}},
	// Bounds of what connections bring: the door before decisions, the throttle, the open calls.
	"regional/internal/overload": {aliquot: []string{"internal/penalty", "internal/ratelog", "internal/rpc", "regional/internal/storeguard", "regional/internal/telemetry"}, outside: []string{"connectrpc.com/connect", "github.com/prometheus/client_golang", "golang.org/x/sys", "google.golang.org/grpc"}},
	// The services for clients: LimiterService, GET /check and Envoy's protocol.
	"regional/internal/api": {aliquot: []string{"internal/checkwire", "internal/envoyrls", "internal/httpanswer", "internal/identity", "internal/ratelog", "internal/rpc", "internal/stack", "budget", "limit", "lua", "rules", "proto/aliquot/...", "regional/internal/background", "regional/internal/charge", "regional/internal/engine", "regional/internal/explain", "regional/internal/modes", "regional/internal/overload", "regional/internal/policy", "regional/internal/telemetry"}, outside: anyModule},
	// Tables of keys for tests.
	"regional/internal/charge/chargetest": {aliquot: []string{"internal/prefetch", "budget", "limit", "lua", "rules", "regional/internal/charge"}},
	// A sample of the decided requests, and its replay under other rules.
	"regional/internal/sample": {aliquot: []string{"internal/entitlement", "internal/replay", "budget", "limit", "rules", "proto/aliquot/v1", "regional/internal/authority", "regional/internal/charge", "regional/internal/modes", "regional/internal/policy"}, outside: []string{"google.golang.org/protobuf"}},
	// The emergency limit of a daemon whose store does not answer.
	"regional/internal/emergency": {aliquot: []string{"internal/entitlement", "internal/recall", "internal/roster", "internal/storeclock", "budget", "limit", "lua", "rules", "regional/internal/charge", "regional/internal/storeguard"}},

	// The session with the coordinators, and what is known of the region's other daemons.
	"regional/internal/session": {aliquot: []string{"internal/boottime", "internal/entitlement", "internal/hashslot", "internal/leasewire", "internal/ratelog", "internal/roster", "internal/rpc", "budget", "limit", "lua", "rules", "proto/aliquot/...", "regional/internal/authority", "regional/internal/background", "regional/internal/charge", "regional/internal/emergency", "regional/internal/policy", "regional/internal/sample", "regional/internal/storeguard", "regional/internal/telemetry"}, outside: []string{"connectrpc.com/connect", "github.com/prometheus/client_golang"}},

	// A store in the daemon's own process.
	"regional/store/memory": {aliquot: []string{"lua", "limit"}},
	// What tests of all stores share.
	"regional/store/storetest": {aliquot: []string{"lua", "limit"}},
	// Bounds of what a Redis may send, checked before go-redis reads it.
	"regional/store/breaker": {},
	"regional/store/replies": {outside: []string{"github.com/redis/go-redis/v9"}},
	"regional/store":         {aliquot: []string{"internal/hashslot", "lua", "limit", "internal/roster", "regional/store/breaker", "regional/store/replies"}, outside: []string{"github.com/redis/go-redis/v9"}},
	"regional":               {aliquot: []string{"regional/...", "internal/durable", "internal/storeclock", "internal/leasewire", "internal/ratelog", "internal/recall", "internal/penalty", "internal/prefetch", "internal/boottime", "internal/hashslot", "lua", "limit", "budget", "internal/entitlement", "internal/roster", "internal/replay", "rules", "internal/rpc", "internal/rpc/connections", "internal/config", "internal/identity", "internal/httpanswer", "internal/checkwire", "internal/envoyrls", "proto/aliquot/..."}, outside: anyModule},
	// The replicated state: the state machine, the codec, the rules. Raft itself is in cluster.
	"cluster/state": {aliquot: []string{"internal/place", "budget", "rules", "proto/raftlog/v1"}, outside: []string{"google.golang.org/protobuf"}, banned: pure},
	// The members that gossip finds, as hints.
	"cluster/gossip": {aliquot: []string{"cluster/msgpack"}, outside: []string{"github.com/hashicorp"}},
	// Raft between the coordinators, and what it refuses of it.
	"cluster/raftnet": {aliquot: []string{"cluster/msgpack", "cluster/state"}, outside: []string{"github.com/hashicorp"}},
	// The structure of messages, before they are decoded.
	"cluster/msgpack": {banned: pure},
	// Raft's log and snapshots on a coordinator's disk.
	"cluster/raftlog": {outside: []string{"github.com/hashicorp"}},
	"cluster":         {aliquot: []string{"cluster/...", "internal/durable", "internal/ratelog", "budget", "rules", "proto/raftlog/v1"}, outside: anyModule},
	"coordinator":     {aliquot: []string{"internal/leasewire", "coordinator/internal/...", "internal/ratelog", "cluster", "cluster/state", "internal/boottime", "internal/hashslot", "budget", "internal/entitlement", "rules", "limit", "internal/rpc", "internal/rpc/connections", "internal/config", "proto/aliquot/..."}, outside: anyModule},

	// The regions' reports, compared with what is promised of each limit.
	"coordinator/internal/audit": {aliquot: []string{"budget", "budget/promise"}, banned: pure},
	// The loop that drives the leader's state machine, and what it decides beside it.
	"coordinator/internal/leader": {aliquot: []string{"coordinator/internal/audit", "cluster", "cluster/state", "budget", "budget/promise", "internal/ratelog", "internal/entitlement", "rules", "limit"}, outside: anyModule},
	// Which daemon of a region may use the floor while no store has answered.
	"coordinator/internal/claims": {aliquot: []string{"coordinator/internal/leader", "budget", "proto/aliquot/v1"}, banned: pure},
	// The promise of a limit, in sentences.
	"coordinator/internal/promise": {aliquot: []string{"coordinator/internal/leader", "cluster/state", "budget", "budget/promise", "limit", "proto/aliquot/v1", "rules"}, outside: []string{"google.golang.org/protobuf"}, banned: pure},
	// What regional daemons tell of themselves, for those who look at a region.
	"coordinator/internal/daemons": {aliquot: []string{"coordinator/internal/leader", "proto/aliquot/v1"}},
	// Plans of rules: the question to the regions, and their answers added up.
	"coordinator/internal/plan": {aliquot: []string{"coordinator/internal/leader", "internal/leasewire", "proto/aliquot/v1"}, outside: []string{"google.golang.org/protobuf"}},
	// The little REST there is.
	"coordinator/internal/rest": {aliquot: []string{"internal/rpc", "proto/aliquot/v1"}, outside: []string{"connectrpc.com/connect", "google.golang.org/protobuf"}},
	// The RPC services, metrics and health.
	"coordinator/internal/service": {aliquot: []string{"internal/place", "coordinator/internal/claims", "coordinator/internal/daemons", "coordinator/internal/leader", "coordinator/internal/plan", "coordinator/internal/promise", "coordinator/internal/rest", "cluster", "cluster/state", "budget", "internal/config", "internal/leasewire", "internal/rpc", "internal/snapshot", "proto/aliquot/...", "rules", "limit"}, outside: anyModule},

	"internal/bench": {aliquot: []string{"internal/bench/latency", "rules", "limit", "internal/rpc", "proto/aliquot/..."}, outside: anyModule},
	// The load, which asks any server, and servers that decide nothing.
	"internal/bench/load":    {aliquot: []string{"internal/bench/latency", "internal/rpc", "internal/checkwire", "rules"}, outside: anyModule},
	"internal/bench/floor":   {aliquot: []string{"internal/bench/load", "proto/aliquot/..."}, outside: anyModule},
	"internal/bench/latency": {banned: pure},

	"internal/dev": {aliquot: []string{"coordinator", "regional", "internal/rpc", "internal/config"}, outside: anyModule},
	// The shared parts of the commands of aliquot.
	"internal/cli/console": {aliquot: []string{"internal/config", "internal/rpc", "proto/aliquot/...", "rules", "rules/source"}, outside: anyModule},
	// The commands of aliquot bench.
	"internal/cli/benchmark": {aliquot: []string{"internal/bench", "internal/bench/latency", "internal/bench/load", "internal/bench/floor", "internal/cli/console", "internal/rpc"}, outside: anyModule},
	// The commands about rules and the entries above them.
	"internal/cli/ruleset": {aliquot: []string{"internal/cli/console", "internal/durable", "internal/envoyimport", "internal/snapshot", "proto/aliquot/...", "rules"}, outside: anyModule},
	// The file of `aliquot snapshot save`.
	"internal/snapshot":   {aliquot: []string{"internal/rpc", "proto/aliquot/v1"}, outside: []string{"google.golang.org/protobuf"}, banned: pure},
	"internal/cli/doctor": {aliquot: []string{"budget", "internal/rpc", "proto/aliquot/..."}, outside: anyModule},
	"internal/cli":        {aliquot: []string{"internal/capacity", "internal/cli/benchmark", "internal/cli/console", "internal/cli/doctor", "internal/cli/ruleset", "internal/dev", "rules", "rules/source", "internal/rpc", "internal/config", "proto/aliquot/..."}, outside: anyModule},

	"cmd/coordinator": {aliquot: []string{"coordinator", "internal/config"}, outside: anyModule},
	"cmd/regional":    {aliquot: []string{"regional", "internal/config"}, outside: anyModule},
	"cmd/aliquot":     {aliquot: []string{"internal/cli"}, outside: anyModule},

	// In the images, which have no shell.
	"deploy/docker/probe": {},

	"internal/e2e":            {aliquot: []string{"lua", "internal/bench", "internal/rpc", "proto/aliquot/..."}, outside: anyModule},
	"internal/e2e/clients":    {aliquot: []string{"internal/bench", "internal/e2e", "internal/rpc", "proto/aliquot/..."}, outside: anyModule},
	"internal/e2e/promise":    {aliquot: []string{"internal/bench", "internal/e2e", "proto/aliquot/..."}, outside: anyModule},
	"internal/e2e/limits":     {aliquot: []string{"internal/bench", "internal/e2e", "internal/e2e/clients", "internal/e2e/promise", "internal/rpc", "internal/sim/compare", "proto/aliquot/..."}, outside: anyModule},
	"internal/e2e/faults":     {aliquot: []string{"internal/bench", "internal/bench/load", "internal/e2e", "internal/e2e/clients", "internal/e2e/promise", "internal/rpc", "proto/aliquot/..."}, outside: anyModule},
	"internal/e2e/acceptance": {aliquot: []string{"internal/e2e", "internal/e2e/faults", "internal/e2e/limits", "internal/e2e/promise"}},
	"internal/e2e/attack":     {aliquot: []string{"cluster/state", "internal/e2e", "internal/bench/load", "proto/aliquot/v1"}, outside: anyModule},
	"internal/e2e/counted":    {aliquot: []string{"client", "internal/dev", "internal/e2e", "proto/aliquot/v1"}},
	"internal/e2e/demo":       {aliquot: []string{"internal/e2e", "internal/rpc", "proto/aliquot/..."}, outside: anyModule},
	"internal/e2e/overload":   {aliquot: []string{"internal/e2e", "internal/bench/load"}},
	"internal/e2e/holes":      {aliquot: []string{"internal/e2e", "internal/e2e/faults"}},
	"internal/e2e/hotkeys":    {aliquot: []string{"budget", "cluster", "cluster/state", "internal/e2e", "internal/e2e/clients", "internal/e2e/promise", "internal/rpc", "proto/aliquot/..."}, outside: anyModule},
	"internal/e2e/outages":    {aliquot: []string{"internal/bench", "internal/e2e", "internal/e2e/promise", "proto/aliquot/..."}, outside: anyModule},
	"internal/e2e/surge":      {aliquot: []string{"internal/bench/latency", "internal/e2e"}, outside: anyModule},

	"proto/aliquot/v1":                  {outside: anyModule},
	"proto/aliquot/v1/aliquotv1connect": {aliquot: []string{"proto/aliquot/v1"}, outside: anyModule},
	"proto/raftlog/v1":                  {outside: anyModule},
}

// never holds even for tests: the two daemons know each other by RPC alone.
var never = map[string][]string{
	"regional":              {"cluster", "coordinator"},
	"regional/store":        {"cluster", "coordinator"},
	"regional/store/memory": {"cluster", "coordinator"},
	"coordinator":           {"regional", "regional/store"},
	"cluster":               {"coordinator", "regional", "proto/aliquot/v1"},
	"cluster/raftnet":       {"cluster", "coordinator", "regional", "proto/aliquot/v1"},
	"cluster/state":         {"cluster", "coordinator", "regional", "proto/aliquot/v1"},
	"cluster/gossip":        {"cluster", "coordinator", "regional", "proto/aliquot/v1"},
	"cluster/msgpack":       {"cluster", "coordinator", "regional", "proto/aliquot/v1"},
	"cluster/raftlog":       {"cluster", "coordinator", "regional", "proto/aliquot/v1"},
}

// goPackage is what `go list -json` says about a package.
type goPackage struct {
	ImportPath, Dir                    string
	Standard                           bool
	Imports, TestImports, XTestImports []string
	GoFiles                            []string
}

func list(t *testing.T, args ...string) []goPackage {
	t.Helper()
	cmd := exec.Command("go", append([]string{"list", "-e", "-json=ImportPath,Dir,Standard,Imports,TestImports,XTestImports,GoFiles"}, args...)...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v\n%s", err, stderr.Bytes())
	}
	var all []goPackage
	for d := json.NewDecoder(bytes.NewReader(out)); ; {
		var p goPackage
		if err := d.Decode(&p); errors.Is(err, io.EOF) {
			return all
		} else if err != nil {
			t.Fatal(err)
		}
		all = append(all, p)
	}
}

func covered(name string, patterns []string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool {
		tree, isTree := strings.CutSuffix(p, "/...")
		return name == p || isTree && strings.HasPrefix(name, tree+"/")
	})
}

func TestWhoMayImportWhom(t *testing.T) {
	standard := map[string]bool{}
	for _, p := range list(t, "-deps", "./...") {
		standard[p.ImportPath] = p.Standard
	}
	for _, p := range list(t, "./...") {
		name, inside := strings.CutPrefix(p.ImportPath, modulePath+"/")
		if !inside || len(p.GoFiles) == 0 {
			continue
		}
		house, known := houses[name]
		if !known {
			t.Errorf("package %s has no row in arch_test.go; add one that says what it may import", name)
			continue
		}
		for _, i := range p.Imports {
			if !allowed(house, i, standard[i]) {
				t.Errorf("%s must not import %s", name, i)
			}
		}
		for _, i := range slices.Concat(p.TestImports, p.XTestImports) {
			if local, ok := strings.CutPrefix(i, modulePath+"/"); ok && slices.Contains(never[name], local) {
				t.Errorf("%s must not import %s, not even in a test", name, i)
			}
		}
	}
}

func allowed(house row, imported string, standard bool) bool {
	if local, ok := strings.CutPrefix(imported, modulePath+"/"); ok {
		return covered(local, house.aliquot)
	}
	if standard || imported == "C" || imported == "unsafe" {
		return !slices.Contains(house.banned, imported)
	}
	return slices.ContainsFunc(house.outside, func(m string) bool {
		return m == "" || imported == m || strings.HasPrefix(imported, m+"/")
	})
}

// TestPureToTheBottom looks at everything the core depends on, not only at what it
// imports itself.
func TestPureToTheBottom(t *testing.T) {
	core := []string{"aliquot/budget", "aliquot/limit", "aliquot/internal/hashslot"}
	for _, p := range list(t, "-deps", "./budget", "./limit", "./internal/hashslot") {
		if !p.Standard && !slices.Contains(core, p.ImportPath) {
			t.Errorf("budget and limit depend on %s; they use the standard library and internal/hashslot alone", p.ImportPath)
		}
	}
}

// sources calls visit for every Go file of the module that people wrote.
func sources(t *testing.T, visit func(path string, text []byte, file *ast.File, set *token.FileSet)) {
	t.Helper()
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && path != "." && (strings.HasPrefix(d.Name(), ".") || d.Name() == "bin" || d.Name() == "testdata" || d.Name() == "tools") {
			return filepath.SkipDir
		}
		if d.IsDir() || filepath.Ext(path) != ".go" {
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		set := token.NewFileSet()
		file, err := parser.ParseFile(set, path, text, parser.ParseComments)
		if err != nil {
			return err
		}
		if !ast.IsGenerated(file) {
			visit(path, text, file, set)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// calls visits every pkg.Name that a file mentions.
func calls(file *ast.File, visit func(at token.Pos, name string)) {
	ast.Inspect(file, func(n ast.Node) bool {
		if s, ok := n.(*ast.SelectorExpr); ok {
			if x, ok := s.X.(*ast.Ident); ok {
				visit(s.Pos(), x.Name+"."+s.Sel.Name)
			}
		}
		return true
	})
}

func TestThePureHaveNoClock(t *testing.T) {
	clock := []string{"time.Now", "time.Since", "time.Until", "time.Sleep", "time.After", "time.AfterFunc", "time.Tick", "time.NewTimer", "time.NewTicker"}
	sources(t, func(path string, _ []byte, file *ast.File, set *token.FileSet) {
		folder := filepath.ToSlash(filepath.Dir(path))
		if strings.HasSuffix(path, "_test.go") || len(houses[folder].banned) == 0 {
			return
		}
		calls(file, func(at token.Pos, name string) {
			if slices.Contains(clock, name) {
				t.Errorf("%s: %s in a pure package; take the time as an argument", set.Position(at), name)
			}
		})
	})
}

func TestTestsNeitherSleepNorSkip(t *testing.T) {
	banned := []string{"time.Sleep", "t.Skip", "t.Skipf", "t.SkipNow", "b.Skip", "b.Skipf", "b.SkipNow", "f.Skip", "f.Skipf", "f.SkipNow"}
	sources(t, func(path string, _ []byte, file *ast.File, set *token.FileSet) {
		if !strings.HasSuffix(path, "_test.go") && !strings.HasPrefix(filepath.ToSlash(path), "internal/e2e/") {
			return
		}
		calls(file, func(at token.Pos, name string) {
			if slices.Contains(banned, name) {
				t.Errorf("%s: %s; wait for a condition with a deadline, and install what is missing", set.Position(at), name)
			}
		})
	})
}

func TestNothingIsLeftForLater(t *testing.T) {
	marks := []string{"TO" + "DO", "FIX" + "ME", "XX" + "X"}
	sources(t, func(path string, text []byte, file *ast.File, set *token.FileSet) {
		for _, m := range marks {
			if i := bytes.Index(text, []byte(m)); i >= 0 {
				t.Errorf("%s:%d: %s", path, bytes.Count(text[:i], []byte("\n"))+1, m)
			}
		}
		for _, d := range file.Decls {
			if f, ok := d.(*ast.FuncDecl); ok && f.Recv == nil && f.Name.Name == "init" {
				t.Errorf("%s: func init; wire it in Run", set.Position(f.Pos()))
			}
		}
	})
}

func TestMainsAreShort(t *testing.T) {
	const most = 200
	mains, err := filepath.Glob("cmd/*/main.go")
	if err != nil || len(mains) == 0 {
		t.Fatalf("cmd/*/main.go: %v, %v", mains, err)
	}
	for _, path := range mains {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if n := bytes.Count(text, []byte("\n")); n > most {
			t.Errorf("%s has %d lines; at most %d: flags, logger, signals, Run", path, n, most)
		}
	}
}

// TestTheWalksNameFilesThatExist: docs/explanation/architecture.md leads through the code by file
// names; one without a folder stands in the folder named before it.
func TestTheWalksNameFilesThatExist(t *testing.T) {
	text, err := os.ReadFile("docs/explanation/architecture.md")
	if err != nil {
		t.Fatal(err)
	}
	named := regexp.MustCompile("`([a-z0-9_/.]+\\.(?:go|lua))`").FindAllStringSubmatch(string(text), -1)
	if len(named) < 40 {
		t.Fatalf("only %d files are named", len(named))
	}
	folder := ""
	for _, m := range named {
		name := m[1]
		if strings.Contains(name, "/") {
			folder = filepath.Dir(name)
		} else {
			name = filepath.Join(folder, name)
		}
		if _, err := os.Stat(name); err != nil {
			t.Errorf("docs/explanation/architecture.md names %s: %v", m[1], err)
		}
	}
}

// TestTheCountedWalksNameFunctionsThatExist: the tables of rooms in docs/explanation/architecture.md
// name functions after the file that has them.
func TestTheCountedWalksNameFunctionsThatExist(t *testing.T) {
	text, err := os.ReadFile("docs/explanation/architecture.md")
	if err != nil {
		t.Fatal(err)
	}
	names, seen := regexp.MustCompile("`([A-Za-z0-9_/.]+)`"), 0
	for _, section := range regexp.MustCompile("(?s)\n### [^\n]*, counted\n.*?\n## ").FindAllString(string(text), -1) {
		folder := ""
		for _, row := range regexp.MustCompile(`(?m)^\|[^|\n]*\|[^|\n]*\|([^|\n]*)\|$`).FindAllStringSubmatch(section, -1) {
			var code []byte
			for _, m := range names.FindAllStringSubmatch(row[1], -1) {
				name := m[1]
				if strings.HasSuffix(name, ".go") {
					if strings.Contains(name, "/") {
						folder = filepath.Dir(name)
					}
					if code, err = os.ReadFile(filepath.Join(folder, filepath.Base(name))); err != nil {
						t.Error(err)
					}
					continue
				}
				function := name[strings.LastIndex(name, ".")+1:]
				if code == nil || function == "lua" {
					continue
				}
				seen++
				if !regexp.MustCompile(`(?m)^func (\([^)]*\) )?` + function + `\b`).Match(code) {
					t.Errorf("docs/explanation/architecture.md names %s, and its file has no such function", name)
				}
			}
		}
	}
	if seen < 60 {
		t.Errorf("only %d functions are named", seen)
	}
}
