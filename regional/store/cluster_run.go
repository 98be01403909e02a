package store

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"aliquot/lua"
	"aliquot/regional/store/breaker"
)

const (
	// maxPipeline bounds the commands of one round trip.
	maxPipeline = 256
	// A command that the cluster refused, because its slot is moving, is sent again after a wait of
	// refusedWait. The wait doubles up to maxRefusedWait. A command is sent at most maxSends times, and
	// only while the context lasts.
	refusedWait    = time.Millisecond
	maxSends       = 40
	maxRefusedWait = 16 * time.Millisecond
	// maxRedirects is how often a command follows a redirection at once; then it waits.
	maxRedirects = 3
)

// errNoOwner: no node is known to have the slot.
var errNoOwner = errors.New("store: CLUSTERDOWN no node of the Redis Cluster is known to have the slot")

// errNoAnswer: the job was sent, and nothing is known of its outcome yet.
var errNoAnswer = errors.New("store: the node's answer was not read")

// job is one command on its way to the owner of a slot: a script call, or a plain command.
type job struct {
	slot  int
	call  *lua.Call
	plain []any
	// reply and err are the outcome.
	reply any
	err   error
	// by is the node that answered last. The job was sent and answered at these times of
	// nodes.local.
	by             *node
	sent, received int64

	urgent    bool  // callers wait for its call, also those of other slots
	refused   bool  // by the last node that got it
	query     bool  // it uses node.queries
	trial     bool  // it finds out whether a node answers again, and is sent alone
	withText  bool  // the server did not know the script
	to        *node // the node to which the last answer redirected it
	asking    bool  // the redirection wants ASKING before the command, because the slot is moving
	redirects int   // how often it was redirected
}

func (j *job) args() []any {
	if j.call != nil {
		return j.call.Args(j.withText)
	}
	return j.plain
}

// run sends all jobs of a node together, and to all nodes at once. If a node refused a job without
// executing it, run sends it again, to the node that has its slot now. It never sends a job again that
// may have been executed, because a script that runs twice charges twice.
func (s *Cluster) run(ctx context.Context, jobs []*job) {
	wait := refusedWait
	for range maxSends {
		s.send(ctx, jobs)
		var again []*job
		refused := false
		for _, j := range jobs {
			result := s.classify(j)
			j.refused = result == resendLater
			switch result {
			case resendNow:
				again = append(again, j)
			case resendLater:
				if j.urgent && s.refused.Refused(j.slot, time.Now()) {
					j.blameNode()
					continue
				}
				again, refused = append(again, j), true
			}
		}
		jobs = again
		if len(jobs) == 0 {
			return
		}
		if refused {
			s.refreshSoon()
			if pause(ctx, wait) != nil {
				break
			}
			wait = min(2*wait, maxRefusedWait)
		}
	}
	s.rememberRefused(jobs)
}

// rememberRefused remembers the slots of those jobs that were refused at every attempt.
func (s *Cluster) rememberRefused(jobs []*job) {
	now := time.Now()
	for _, j := range jobs {
		if j.refused {
			s.refused.Note(j.slot, now)
			j.blameNode()
		}
	}
}

// outcome says what follows for a job that was sent.
type outcome int

const (
	finished outcome = iota
	resendNow
	resendLater
)

func (s *Cluster) classify(j *job) outcome {
	j.to, j.asking = nil, false
	if j.err == nil {
		return finished
	}
	if moved, ask, slot, addr := redirected(j.err); moved || ask {
		j.to, j.asking = s.nodes.at(addrOf(addr, j.by)), ask
		if ask && j.to != nil {
			j.to.imports.Store(true)
		}
		if moved && j.to != nil {
			s.nodes.owners[slot].Store(j.to)
			s.refreshSoon()
		}
		if j.redirects++; j.redirects > maxRedirects {
			return resendLater // the servers do not agree on the slot's owner yet
		}
		return resendNow
	}
	switch {
	case redis.HasErrorPrefix(j.err, "NOSCRIPT") && !j.withText:
		j.withText = true
		return resendNow
	case errors.Is(j.err, errNoOwner), redis.HasErrorPrefix(j.err, "TRYAGAIN"),
		redis.HasErrorPrefix(j.err, "CLUSTERDOWN"), redis.HasErrorPrefix(j.err, "READONLY"):
		return resendLater
	}
	return finished
}

// send makes one round trip to every node that has jobs.
func (s *Cluster) send(ctx context.Context, jobs []*job) {
	type route struct {
		to    *node
		query bool
	}
	batches := map[route][]*job{}
	var order []route
	for _, j := range jobs {
		to := j.to
		if to == nil {
			to = s.nodes.owners[j.slot].Load()
		}
		if to == nil {
			j.err = errNoOwner
			continue
		}
		r := route{to, j.query}
		if batches[r] == nil {
			order = append(order, r)
		}
		batches[r] = append(batches[r], j)
	}
	if len(order) == 1 {
		s.sendTo(ctx, order[0].to, order[0].query, batches[order[0]])
		return
	}
	var calls sync.WaitGroup
	for _, r := range order {
		calls.Go(func() {
			if err := safely(s.log, "a call of a node", func() error { s.sendTo(ctx, r.to, r.query, batches[r]); return nil }); err != nil {
				failAll(batches[r], r.to, err)
			}
		})
	}
	calls.Wait()
}

// sendTo sends jobs to one node, over its connections for queries or those for calls.
func (s *Cluster) sendTo(ctx context.Context, to *node, query bool, jobs []*job) {
	for len(jobs) > 0 {
		some := jobs[:min(maxPipeline, len(jobs))]
		jobs = jobs[len(some):]
		if query {
			s.pipeline(ctx, to, to.queries, some)
		} else {
			s.call(ctx, to, some)
		}
	}
}

// call sends jobs to one node, if its breaker lets them pass. After a panic they count as sent and failed.
func (s *Cluster) call(ctx context.Context, to *node, jobs []*job) {
	if err := to.breaker.Enter(time.Now(), jobs[0].trial); err != nil {
		failAll(jobs, to, &NodeError{Node: to.addr, Err: err})
		s.tryUntilWell(to)
		return
	}
	failAll(jobs, to, errNoAnswer)
	defer s.recordOutcome(to, jobs, time.Now())
	if err := s.checkClock(ctx, to); err != nil {
		failAll(jobs, to, err)
		return
	}
	s.pipeline(ctx, to, to.calls, jobs)
}

func failAll(jobs []*job, by *node, err error) {
	for _, j := range jobs {
		j.by, j.err = by, err
	}
}

// recordOutcome reports the outcome of jobs to the breaker of the node that got them.
func (s *Cluster) recordOutcome(to *node, jobs []*job, began time.Time) {
	var failed error
	for _, j := range jobs {
		if unwell(j.err) {
			failed = j.err
			j.err = &NodeError{Node: to.addr, Err: j.err}
		}
	}
	now := time.Now()
	change := to.breaker.Leave(now, failed != nil, now.Sub(began), s.callTimeout)
	if change != breaker.Same && s.onCircuit != nil {
		s.onCircuit(to.addr, change == breaker.Opened, failed)
	}
	if failed != nil {
		s.refreshSoon() // a replica may have taken its place
		s.tryUntilWell(to)
	}
}

// pipeline sends jobs on one connection.
func (s *Cluster) pipeline(ctx context.Context, to *node, client *redis.Client, jobs []*job) {
	sent := s.nodes.localTime()
	cmds := make([]*redis.Cmd, len(jobs))
	if len(jobs) == 1 && !jobs[0].asking {
		cmds[0] = client.Do(ctx, jobs[0].args()...)
	} else {
		pipe := client.Pipeline()
		for i, j := range jobs {
			if j.asking {
				pipe.Do(ctx, "asking")
			}
			cmds[i] = pipe.Do(ctx, j.args()...)
		}
		_, _ = pipe.Exec(ctx) // each command has its own error
	}
	received := s.nodes.localTime()
	for i, j := range jobs {
		j.by, j.sent, j.received = to, sent, received
		j.reply, j.err = cmds[i].Result()
		if errors.Is(j.err, redis.Nil) {
			j.reply, j.err = nil, nil
		}
	}
}
