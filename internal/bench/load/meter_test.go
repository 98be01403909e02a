package load

import (
	"context"
	"fmt"
	"math"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

func TestTimeOfAProcessIsRead(t *testing.T) {
	got, err := processTime("12 (a ) b) S 1 2 3 4 5 6 7 8 9 10 250 50 0 0 20 0")
	if err != nil || got != 3 {
		t.Errorf("%v, %v", got, err)
	}
	if _, err := processTime("12 (a) S 1"); err == nil {
		t.Error("half a line was read")
	}
}

func TestTimeOfAServerIsReadFromItsMetrics(t *testing.T) {
	page := "# HELP process_cpu_seconds_total x\nprocess_cpu_seconds_total 12.5\nother 1\n"
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, page) }))
	defer s.Close()
	c := Config{Address: "127.0.0.1:1", Server: ServerMeter{Ops: s.Listener.Addr().String()}}
	m, err := newMeters(&c)
	if err != nil {
		t.Fatal(err)
	}
	if u, err := m.read(context.Background()); err != nil || u.server != 12.5 {
		t.Errorf("%+v, %v", u, err)
	}
	page = "other 1\n"
	if _, err := m.read(context.Background()); err == nil {
		t.Error("a page without the figure was read")
	}
}

func TestUsageOfRedisIsRead(t *testing.T) {
	commands := "used_cpu_sys:1.5\r\nused_cpu_user:2.5\r\nused_cpu_sys_children:9\r\n" +
		"cmdstat_get:calls=10,usec=1,x=2\r\ncmdstat_info:calls=99,usec=1\r\ncmdstat_incrby:calls=5,usec=1\r\n"
	if seconds, calls := redisUsage(commands); seconds != 4 || calls != 15 {
		t.Errorf("%v s, %d calls", seconds, calls)
	}
	if _, calls := redisUsage(commands + "cmdstat_evalsha:calls=7,usec=1\r\ncmdstat_eval:calls=1,usec=1\r\n"); calls != 8 {
		t.Errorf("%d calls with scripts", calls)
	}
}

// TestARunThatCannotBeMeasuredEnds at once, rather than put load on a server for nothing.
func TestARunThatCannotBeMeasuredEnds(t *testing.T) {
	c := DefaultConfig()
	c.Address, c.Server.PID = "127.0.0.1:1", math.MaxInt32 // more than any system has
	c.Warmup, c.Duration = 0, 24*time.Hour
	if _, err := Run(t.Context(), c); err == nil || strings.Count(err.Error(), "of the server") != 1 {
		t.Errorf("%v", err)
	}
}
