package load

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"

	"aliquot/internal/rpc"
)

const (
	// clockTicks is the unit of /proc/PID/stat, the same on every Linux.
	clockTicks = 100
	// meterWithin bounds one reading of a server's metrics or of a Redis.
	meterWithin = 2 * time.Second
	// maxMetrics bounds a page of metrics.
	maxMetrics = 16 << 20
)

// usage is what was used up to a moment, or between two.
type usage struct {
	server, redis, generator float64 // processor seconds
	redisCalls               int64
}

func (u usage) since(o usage) usage {
	return usage{u.server - o.server, u.redis - o.redis, u.generator - o.generator, u.redisCalls - o.redisCalls}
}

// meters read usage.
type meters struct {
	server func(context.Context) (float64, error) // nil: unknown
	redis  []*redis.Client
}

func newMeters(c *Config) (*meters, error) {
	m := &meters{}
	switch pid := c.Server.PID; {
	case c.Server.Ops != "":
		m.server = metricsMeter(rpc.BaseURL(c.Server.Ops) + "/metrics")
	case pid != 0:
		m.server = processMeter(pid)
	default:
		if pid = listener(c.Address); pid != 0 {
			m.server = processMeter(pid)
		}
	}
	for _, url := range c.Redis {
		o, err := redis.ParseURL(url)
		if err != nil {
			m.close()
			return nil, fmt.Errorf("--redis: not a URL of a Redis server, such as redis://127.0.0.1:6379")
		}
		o.DisableIdentity = true
		m.redis = append(m.redis, redis.NewClient(o))
	}
	return m, nil
}

func (m *meters) close() {
	for _, r := range m.redis {
		r.Close()
	}
}

func (m *meters) read(ctx context.Context) (u usage, err error) {
	ctx, cancel := context.WithTimeout(ctx, meterWithin)
	defer cancel()
	u.generator = ownTime()
	if m.server != nil {
		if u.server, err = m.server(ctx); err != nil {
			return u, fmt.Errorf("of the server: %w", err)
		}
	}
	for _, r := range m.redis {
		seconds, calls, err := readRedis(ctx, r)
		if err != nil {
			return u, fmt.Errorf("of Redis: %w", err)
		}
		u.redis += seconds
		u.redisCalls += calls
	}
	return u, nil
}

func ownTime() float64 {
	var r syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &r) != nil {
		return 0
	}
	return time.Duration(r.Utime.Nano() + r.Stime.Nano()).Seconds()
}

// metricsMeter reads the processor time that a Go program's metrics tell.
func metricsMeter(url string) func(context.Context) (float64, error) {
	return func(ctx context.Context) (float64, error) {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		if err != nil {
			return 0, err
		}
		answer, err := http.DefaultClient.Do(request)
		if err != nil {
			return 0, err
		}
		defer answer.Body.Close()
		lines := bufio.NewScanner(io.LimitReader(answer.Body, maxMetrics))
		for lines.Scan() {
			if value, ok := strings.CutPrefix(lines.Text(), "process_cpu_seconds_total "); ok {
				return strconv.ParseFloat(value, 64)
			}
		}
		return 0, fmt.Errorf("%s does not export process_cpu_seconds_total", url)
	}
}

// processMeter reads the processor time of a process of this machine.
func processMeter(pid int) func(context.Context) (float64, error) {
	return func(context.Context) (float64, error) {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil {
			return 0, err
		}
		return processTime(string(text))
	}
}

// processTime reads user and system time from the text of /proc/PID/stat. The program's
// name, in parentheses, may hold anything.
func processTime(stat string) (float64, error) {
	fields := strings.Fields(stat[strings.LastIndexByte(stat, ')')+1:])
	if len(fields) < 13 {
		return 0, fmt.Errorf("process state %q is malformed", stat)
	}
	user, err := strconv.ParseFloat(fields[11], 64)
	if err != nil {
		return 0, err
	}
	system, err := strconv.ParseFloat(fields[12], 64)
	return (user + system) / clockTicks, err
}

// readRedis returns a server's processor time, and the calls that were made to it:
// scripts where there are any, whose own commands are counted among all the others, and
// commands where there are none.
func readRedis(ctx context.Context, r *redis.Client) (seconds float64, calls int64, err error) {
	text, err := r.Info(ctx, "cpu", "commandstats").Result()
	if err != nil {
		return 0, 0, err
	}
	seconds, calls = redisUsage(text)
	return seconds, calls, nil
}

func redisUsage(info string) (seconds float64, calls int64) {
	var scripts, commands int64
	for line := range strings.Lines(info) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		switch name {
		case "used_cpu_sys", "used_cpu_user":
			f, _ := strconv.ParseFloat(value, 64) // a server that writes anything else is not Redis
			seconds += f
			continue
		}
		command, found := strings.CutPrefix(name, "cmdstat_")
		n := callsIn(value)
		switch {
		case !found:
		case command == "eval", command == "evalsha", command == "fcall":
			scripts += n
		case command != "info":
			commands += n
		}
	}
	if scripts > 0 {
		return seconds, scripts
	}
	return seconds, commands
}

// callsIn reads the number in calls=123,usec=...
func callsIn(stats string) int64 {
	text, found := strings.CutPrefix(stats, "calls=")
	if !found {
		return 0
	}
	text, _, _ = strings.Cut(text, ",")
	n, _ := strconv.ParseInt(text, 10, 64) // as above
	return n
}
