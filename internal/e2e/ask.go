package e2e

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"aliquot/internal/rpc"
	"aliquot/lua"
	aliquotv1 "aliquot/proto/aliquot/v1"
	"aliquot/proto/aliquot/v1/aliquotv1connect"
)

// Lease returns how long a region's lease still lasts, from its daemon's metrics.
func (l *Cluster) Lease(ctx context.Context, r *Region) (time.Duration, error) {
	seconds, err := l.Metric(ctx, r, "aliquot_lease_remaining_seconds")
	return time.Duration(seconds * float64(time.Second)), err
}

// Metric returns the value of the first of a region's series whose line begins with series.
func (l *Cluster) Metric(ctx context.Context, r *Region, series string) (float64, error) {
	values, err := l.metrics(ctx, r.Ops(), series)
	if err == nil && len(values) == 0 {
		err = fmt.Errorf("no %s in its metrics", series)
	}
	if err != nil {
		return 0, err
	}
	return values[0], nil
}

// metrics returns the values of all series whose lines begin with series, of the process with the ops listener.
func (l *Cluster) metrics(ctx context.Context, ops, series string) (out []float64, err error) {
	ctx, cancel := context.WithTimeout(ctx, CallWithin)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+ops+"/metrics", nil)
	if err != nil {
		return nil, err
	}
	answer, err := l.HTTP.Do(request)
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		return nil, err
	}
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, series) {
			fields := strings.Fields(line)
			value, err := strconv.ParseFloat(fields[len(fields)-1], 64)
			if err != nil {
				return nil, err
			}
			out = append(out, value)
		}
	}
	return out, nil
}

// Broken returns how many violations of promises the running coordinators have counted in total.
func (l *Cluster) Broken(ctx context.Context) (sum float64, err error) {
	for _, c := range l.Coordinators {
		if !c.Running() {
			continue
		}
		values, err := l.metrics(ctx, c.Ops(), "aliquot_bound_violations_total{")
		if err != nil {
			return 0, err
		}
		for _, v := range values {
			sum += v
		}
	}
	return sum, nil
}

// Flush empties a region's Redis (FLUSHALL).
func (l *Cluster) Flush(r *Region) error { return r.Command("FLUSHALL") }

// ForgetDaemons empties the list in the region's store of the daemons that ran in the last hour. A daemon that was
// killed and lost its state file comes back as another one; without a coordinator, the region's daemons wait for the
// one that is gone. Running daemons enter the list again within a second.
func (r *Region) ForgetDaemons() error { return r.Command("DEL " + lua.RosterKey) }

// Command sends a command to the region's Redis. An answer other than OK or a number is an error.
func (r *Region) Command(text string) error {
	conn, err := net.DialTimeout("tcp", r.Redis, CallWithin)
	if err != nil {
		return err
	}
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(CallWithin))
	if _, err := io.WriteString(conn, text+"\r\n"); err != nil {
		return err
	}
	reply := make([]byte, 64)
	n, err := conn.Read(reply)
	if err == nil && !strings.HasPrefix(string(reply[:n]), "+OK") && !strings.HasPrefix(string(reply[:n]), ":") {
		err = fmt.Errorf("%s: %s", text, reply[:n])
	}
	return err
}

func (l *Cluster) budgets(c *Coordinator) aliquotv1connect.BudgetServiceClient {
	return aliquotv1connect.NewBudgetServiceClient(l.HTTP, rpc.BaseURL(c.Address))
}

// Budget asks one coordinator for a key's budget.
func (l *Cluster) Budget(ctx context.Context, c *Coordinator, rule string, key map[string]string) (*aliquotv1.Budget, error) {
	ctx, cancel := context.WithTimeout(ctx, CallWithin)
	defer cancel()
	answer, err := l.budgets(c).GetBudget(ctx, &aliquotv1.GetBudgetRequest{RuleId: rule, Key: key})
	return answer.GetBudget(), err
}

// RegionService returns a client of one coordinator's region service.
func (l *Cluster) RegionService(c *Coordinator) aliquotv1connect.RegionServiceClient {
	return aliquotv1connect.NewRegionServiceClient(l.HTTP, rpc.BaseURL(c.Address))
}

// Declared asks one coordinator for the declared regions.
func (l *Cluster) Declared(ctx context.Context, c *Coordinator) ([]*aliquotv1.Region, error) {
	ctx, cancel := context.WithTimeout(ctx, CallWithin)
	defer cancel()
	answer, err := l.RegionService(c).ListRegions(ctx, &aliquotv1.ListRegionsRequest{})
	return answer.GetRegions(), err
}

// Status asks one coordinator about the cluster.
func (l *Cluster) Status(ctx context.Context, c *Coordinator) (*aliquotv1.GetStatusResponse, error) {
	ctx, cancel := context.WithTimeout(ctx, CallWithin)
	defer cancel()
	return aliquotv1connect.NewClusterServiceClient(l.HTTP, rpc.BaseURL(c.Address)).GetStatus(ctx, &aliquotv1.GetStatusRequest{})
}

// Leader returns the running coordinator that says it leads, or an error if there is none.
func (l *Cluster) Leader(ctx context.Context) (*Coordinator, error) {
	for _, c := range l.Coordinators {
		if !c.Running() {
			continue
		}
		status, err := l.Status(ctx, c)
		if err == nil && status.State == "leader" {
			return c, nil
		}
	}
	return nil, errors.New("no coordinator says it leads")
}

// SomeLeader waits until a coordinator leads, and returns it.
func (l *Cluster) SomeLeader(ctx context.Context) (leader *Coordinator, err error) {
	err = Until(ctx, ReadyWithin, "led", func() error {
		leader, err = l.Leader(ctx)
		return err
	})
	return leader, err
}

// WhenLed makes a call, and repeats it while it is refused because no coordinator leads. Such a call changes nothing.
func WhenLed(ctx context.Context, call func() error) error {
	var err error
	refused := Until(ctx, ReadyWithin, "led", func() error {
		err = call()
		if err != nil && (strings.Contains(err.Error(), "no leader is known") || strings.Contains(err.Error(), "taking charge")) {
			return err
		}
		return nil
	})
	return cmp.Or(refused, err)
}

// Follower returns a running coordinator that does not lead.
func (l *Cluster) Follower(ctx context.Context) (*Coordinator, error) {
	leader, err := l.SomeLeader(ctx)
	if err != nil {
		return nil, err
	}
	for _, c := range l.Coordinators {
		if c != leader && c.Running() {
			return c, nil
		}
	}
	return nil, errors.New("no coordinator follows")
}

// Command runs aliquot, and returns its exit code and all that it printed.
func (l *Cluster) Command(ctx context.Context, args ...string) (code int, printed string, err error) {
	ctx, cancel := context.WithTimeout(ctx, ReadyWithin)
	defer cancel()
	text, err := exec.CommandContext(ctx, filepath.Join(l.Bin, "aliquot"), args...).CombinedOutput()
	if exit, failed := errors.AsType[*exec.ExitError](err); failed && exit.ExitCode() > 0 {
		return exit.ExitCode(), string(text), nil
	}
	return 0, string(text), err
}
