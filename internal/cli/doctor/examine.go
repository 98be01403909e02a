// Package doctor says in plain words what is wrong with an installation and what to do about it.
package doctor

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"connectrpc.com/connect"

	"aliquot/budget"
)

// Severities of a finding.
const (
	// Problem needs an operator.
	Problem = "problem"
	// Warning is worth knowing, and harms nothing by itself.
	Warning = "warning"
	// Note is about something that is over, or that an operator did on purpose.
	Note = "note"
)

// severities are in the order in which findings are told.
var severities = []string{Problem, Warning, Note}

// Finding is one thing that is wrong.
type Finding struct {
	Severity string `json:"severity"`
	// About names a coordinator, a region or the cluster.
	About string `json:"about"`
	// The fault, as a sentence.
	What string `json:"what"`
	// Remedy is what to do.
	Remedy string `json:"remedy"`
}

const (
	cluster = "cluster"
	// maxClockDifference is how far two wall clocks may be apart without a finding.
	maxClockDifference = 2 * time.Second
	// crowded is the number of hot keys from which on the table is careful; see docs/reference/protocol.md.
	crowded = budget.MaxHotKeys * 4 / 5
)

// examination collects findings.
type examination struct {
	View
	findings []Finding
}

func (e *examination) problem(about, what, remedy string, args ...any) {
	e.findings = append(e.findings, Finding{Problem, about, fmt.Sprintf(what, args...), remedy})
}

func (e *examination) warn(about, what, remedy string, args ...any) {
	e.findings = append(e.findings, Finding{Warning, about, fmt.Sprintf(what, args...), remedy})
}

func (e *examination) note(about, what, remedy string, args ...any) {
	e.findings = append(e.findings, Finding{Note, about, fmt.Sprintf(what, args...), remedy})
}

// Examine returns what is wrong, problems first, and what was wrong last. It is empty if nothing is or was.
func Examine(v View) []Finding {
	e := examination{View: v}
	e.quorum()
	e.rules()
	e.regions()
	e.daemons()
	e.versions()
	e.clocks()
	slices.SortStableFunc(e.findings, func(a, b Finding) int {
		return slices.Index(severities, a.Severity) - slices.Index(severities, b.Severity)
	})
	return e.findings
}

// quorum looks at the coordinators.
func (e *examination) quorum() {
	voters, answering := 0, 0
	reached := map[string]bool{}
	for _, c := range e.Coordinators {
		if connect.CodeOf(c.Err) == connect.CodeUnimplemented {
			e.problem(c.Address, "does not serve this (%s); is --addr that of a coordinator?", "give --addr the port of a coordinator's --listen (7400 by default); "+
				"a regional daemon's ops listener is for --ops", firstLine(c.Err))
			continue
		}
		if c.Status == nil {
			e.problem(name(c), "does not answer: %v", "start it again with its data directory; "+
				"if its host or disk is lost, see docs/how-to/replace-a-coordinator.md", c.Err)
			continue
		}
		reached[c.NodeID] = true
		if c.Status.GetClusterId() != e.best().GetClusterId() {
			e.problem(name(c), "is of cluster %s, the others of %s", "name the coordinators of one cluster in --addr", c.Status.GetClusterId(), e.best().GetClusterId())
		}
	}
	for _, m := range e.members() {
		if m.GetSuffrage() != "voter" {
			e.warn("coordinator "+m.GetNodeId(), "has no vote yet", "wait until it has caught up; if it was given up, `aliquot cluster remove "+m.GetNodeId()+"`")
			continue
		}
		voters++
		if reached[m.GetNodeId()] {
			answering++
		}
	}
	majority := voters/2 + 1
	switch status := e.best(); {
	case status == nil:
		return
	case e.unformed():
		e.problem(cluster, "no cluster has been formed yet: %d of the coordinators that --bootstrap-expect counts answer",
			"start the others, with --join and the same --bootstrap-expect; the log of each says which it has found", len(reached))
		return
	case status.GetLeaderId() == "":
		e.problem(cluster, "no coordinator leads: %d of %d voters answer, and a majority is %d. Regions still serve their shares, and 2 leases later their floors",
			"start the other coordinators with their data directories; if a majority is lost for good, see docs/how-to/recover-a-lost-quorum.md", answering, voters, majority)
	case voters == 1:
		e.warn(cluster, "there is one coordinator: while it is away, no share moves", "run three")
	case answering == majority:
		e.warn(cluster, "%d of %d voters answer: without one more of them no coordinator leads", "start the others", answering, voters)
	}
	if hot := e.best().GetHotKeys(); hot >= crowded {
		e.warn(cluster, "%d of %d places for hot keys are taken: further keys stay at the floors of the regions", "look for a rule whose key many clients share or invent: `aliquot top`", hot, budget.MaxHotKeys)
	}
}

func firstLine(err error) string {
	line, _, _ := strings.Cut(err.Error(), "\n")
	return line
}

func name(c Coordinator) string {
	if c.NodeID == "" {
		return "coordinator at " + c.Address
	}
	return "coordinator " + c.NodeID
}

// unformed reports whether coordinators answer and none is a member of a cluster. They know of no
// rules and no regions then, which is no fault.
func (e *examination) unformed() bool {
	return e.best() != nil && e.best().GetClusterId() == "" && len(e.members()) == 0
}

// rules looks for missing rules, and for regions that do not have them.
func (e *examination) rules() {
	status := e.best()
	if status == nil || e.unformed() {
		return
	}
	if status.GetRulesVersion() == 0 {
		e.problem(cluster, "there are no rules: every request passes", "`aliquot rules apply FILE`")
		return
	}
	for _, r := range status.GetRegions() {
		if r.GetState() == "live" && r.GetRulesVersion() != status.GetRulesVersion() {
			e.warn("region "+r.GetName(), "enforces version %d of the rules, and %d is in force", "if no roll-out is staged for it (`aliquot rules history`) and this lasts, "+
				"look at its log: an older daemon cannot read newer rules", r.GetRulesVersion(), status.GetRulesVersion())
		}
	}
}

// regions looks at what the leader knows of each region.
func (e *examination) regions() {
	status := e.best()
	if status != nil && !e.unformed() && len(status.GetRegions()) == 0 {
		e.problem(cluster, "no region is declared", "`aliquot region add NAME`")
	}
	for _, r := range status.GetRegions() {
		about := "region " + r.GetName()
		switch {
		case r.GetStatus() == "drained":
			e.note(about, "is drained: nothing of any limit is left there, and its daemon denies every request",
				"its daemon may be stopped; `aliquot region add "+r.GetName()+"` takes the region back")
			continue
		case r.GetStatus() == "fenced":
			e.note(about, "is fenced: what it held was given to the others, and the leader refuses its daemons",
				"nothing is to be done while no daemon of it runs; `aliquot region add "+r.GetName()+"` takes the region back")
			continue
		case r.GetStatus() == "joining" && r.GetState() == "live":
			e.note(about, "has no floor yet: its daemon is heard, and the other regions make room", "wait for a few steps of about a second each; "+
				"with windows, logs or slots in the rules each takes the longest of their windows as well")
		case r.GetStatus() == "joining":
			e.warn(about, "has no floor yet", "start its daemon with --region "+r.GetName()+"; the floor follows when the other regions have made room")
		case r.GetState() == "no_session":
			e.warn(about, "is heard and has no session: it serves the smaller of its share and its floor", "one that lasts longer than a few seconds has a Redis that does not answer, "+
				"or a reason that its log tells; see docs/how-to/answer-an-alert.md")
		case r.GetState() == "silent":
			e.problem(about, "has not been heard for a lease: it serves its floor, or is down", "look at its daemon, and at the network between it and the coordinators; "+
				"if it is gone for good, `aliquot region fence "+r.GetName()+" --dead`")
		}
		if r.GetStoreless() && !e.answers(r.GetName()) {
			e.problem(about, "its store does not answer: its daemon goes on by what it remembers", "repair the Redis; the daemon's log says what is wrong with it")
		}
		if other := r.GetStoreSharedWith(); other != "" {
			e.problem(about, "shares its store with region %s: both take from the same records, so limits admit too little", "give each region a Redis of its own in --redis", other)
		}
	}
}

// daemons looks at what regional daemons say themselves.
func (e *examination) daemons() {
	for _, d := range e.Daemons {
		about := "region " + d.Region
		if d.Region == "" {
			about = "daemon at " + d.Ops
		}
		switch status := e.status(d.Region); {
		case status == "fenced" && d.Err == nil:
			e.problem(about, "is fenced, and its daemon at %s still runs: what it admits comes on top of the limits",
				"stop the daemon, or take the region back with `aliquot region add "+d.Region+"`", d.Ops)
			continue
		case status == "fenced" || status == "drained":
			continue // it has nothing to enforce, so it may be stopped, cut off and without a store
		}
		if d.Err != nil {
			e.warn(about, "its ops listener %s cannot be asked from here: %v", "name one that can be reached with --ops, or run this on the daemon's host", d.Ops, d.Err)
			continue
		}
		if !d.Ready.Ready {
			e.problem(about, "is not ready: %s", "`/readyz` of "+d.Ops+" and the daemon's log have more", d.Ready.Reason)
		}
		neverReached := d.Ready.StoreReached != nil && !*d.Ready.StoreReached
		switch {
		case neverReached:
			e.problem(about, "its store has not answered since the daemon's start, so it has no session, and each rule's on_redis_failure decides%s",
				cmp.Or(d.Store.Remedy, "look at --redis of the daemon, and at its log"), colon(d.Store.Error))
			continue
		case d.Ready.Ready && d.Ready.Phase != "live":
			e.problem(about, "is in phase %s: it enforces its floor, not its shares", "look at the network between it and the coordinators", d.Ready.Phase)
		}
		e.store(about, d)
	}
}

// status returns whether a region takes part, as the leader knows it; empty for an unknown one.
func (e *examination) status(region string) string {
	for _, r := range e.View.regions() {
		if r.GetName() == region {
			return r.GetStatus()
		}
	}
	return ""
}

const (
	// expireShare is how many milliseconds of a second a Redis takes at most to drop keys that have ended, in hz pauses:
	// a quarter, by its default of active-expire-effort.
	expireShare = 250
	// enoughHz is the hz that its pauses are short with.
	enoughHz = 100
)

// pauses notes the servers that drop many keys at a time.
func (e *examination) pauses(about string, servers []Server) {
	for _, s := range servers {
		if s.Hz > 0 && s.Hz < enoughHz {
			e.note(about, "its Redis %s has hz %d: it answers nobody for up to %d ms while it drops keys that have ended",
				"`redis-cli CONFIG SET hz 100`, and the same in its configuration", s.Server, s.Hz, expireShare/s.Hz)
		}
	}
}

// answers reports whether a daemon of a region said itself how it is.
func (e *examination) answers(region string) bool {
	return slices.ContainsFunc(e.Daemons, func(d Daemon) bool { return d.Region == region && d.Err == nil })
}

func (e *examination) store(about string, d Daemon) {
	switch {
	case d.Store.Down:
		e.problem(about, "its store does not answer, and each rule's on_redis_failure decides%s", cmp.Or(d.Store.Remedy, "repair the Redis"), colon(d.Store.Error))
	case d.Store.Error != "":
		e.warn(about, "its store did not say how it is set up: %s", cmp.Or(d.Store.Remedy, "let the user of --redis call INFO"), d.Store.Error)
	}
	for _, s := range d.Store.Servers {
		if s.EvictionPolicy != "noeviction" && s.EvictionPolicy != "" {
			e.problem(about, "its Redis %s evicts keys when its memory is full (maxmemory-policy %s): an evicted limit begins full again",
				"`redis-cli CONFIG SET maxmemory-policy noeviction`, and the same in its configuration", s.Server, s.EvictionPolicy)
		}
		if s.AppendOnly || s.Snapshots > 0 {
			e.warn(about, "its Redis %s writes to its disk: that costs time and helps nothing, because contents of before a restart are not used", "`appendonly no` and `save \"\"` in its configuration", s.Server)
		}
	}
	e.pauses(about, d.Store.Servers)
	if total, text := sum(d.WithoutStore); total > 0 {
		const what, where = "%.0f requests were decided without the store since the daemon's start: %s", "gaps of its Redis are in the log and in aliquot_store_errors_total"
		if d.Store.Down {
			e.warn(about, what, where, total, text)
		} else {
			e.note(about, "its store answers now; "+what, "nothing is to be done unless the number grows; "+where, total, text)
		}
	}
}

// sum returns how many decisions there were in all, and says how many of each rule in which mode.
func sum(all []Decisions) (total float64, text string) {
	var parts []string
	for _, n := range all {
		total += n.Count
		parts = append(parts, fmt.Sprintf("%.0f of %s (%s)", n.Count, cmp.Or(n.Rule, "-"), n.Mode))
	}
	const most = 10
	if more := len(parts) - most; more > 0 {
		parts = append(parts[:most], fmt.Sprintf("and of %d others", more))
	}
	return total, strings.Join(parts, ", ")
}

// versions compares the programs.
func (e *examination) versions() {
	var all []string
	for _, c := range e.Coordinators {
		all = append(all, c.Status.GetVersion())
	}
	for _, r := range e.View.regions() {
		all = append(all, r.GetDaemonVersion())
	}
	all = slices.DeleteFunc(all, func(v string) bool { return v == "" })
	slices.Sort(all)
	if all = slices.Compact(all); len(all) > 1 {
		e.warn(cluster, "the daemons are of several versions: %s", "finish the upgrade, see docs/how-to/upgrade.md", strings.Join(all, ", "))
	}
}

// clocks compares the wall clocks of all hosts. Only a difference that is certain is a finding.
func (e *examination) clocks() {
	type host struct {
		name string
		Clock
	}
	var all []host
	for _, c := range e.Coordinators {
		all = append(all, host{name(c), c.Clock})
	}
	for _, d := range e.Daemons {
		all = append(all, host{"region " + d.Region, d.Clock})
	}
	all = slices.DeleteFunc(all, func(h host) bool { return !h.Known })
	if len(all) == 0 {
		return
	}
	behind := slices.MinFunc(all, func(a, b host) int { return int(a.Max - b.Max) })
	ahead := slices.MaxFunc(all, func(a, b host) int { return int(a.Min - b.Min) })
	if apart := ahead.Min - behind.Max; apart > maxClockDifference {
		e.warn(ahead.name, "its clock is at least %v ahead of that of %s: windows begin, and blocks and overrides end, at another time there",
			"let a time service set the clocks of all hosts", apart.Round(time.Second), behind.name)
	}
}

func colon(s string) string {
	if s == "" {
		return ""
	}
	return ": " + s
}
