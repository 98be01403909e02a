package deploycheck

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"net"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// container is one process of a deployment, in the words of the deployment: its own
// host names, ports and paths.
type container struct {
	name    string
	host    string // whose ports it opens; several may share one host
	kind    string // coordinator, regional, redis
	program string // on this machine
	args    []string
	env     map[string]string
	// files are its writable or mounted paths, and where they are on this machine.
	files map[string]string
	// programs are the image's own.
	programs map[string]string
	// health are its health checks, as commands.
	health [][]string
}

// placed is the same container with the host names, ports and paths of this machine.
type placed struct {
	*container
	args   []string
	env    []string
	health [][]string
}

// network places containers: each port of each host gets a free port of this
// machine's loopback.
type network struct {
	names map[string]string // a DNS name, and the host that has it
	ports map[string]string // "host:port" in the deployment, "127.0.0.1:port" here
	ends  []net.Listener    // keep the ports until everything is placed
	err   error
}

func newNetwork() *network {
	return &network{names: map[string]string{}, ports: map[string]string{}}
}

// port is where a port of a host is here.
func (n *network) port(host, port string) string {
	key := host + ":" + port
	if n.ports[key] == "" {
		l, err := listenBelow()
		if err != nil {
			n.fail("find a free port: %v", err)
			return ""
		}
		n.ends = append(n.ends, l)
		n.ports[key] = l.Addr().String()
	}
	return n.ports[key]
}

// listenBelow listens on a port below those that systems give to a process that asks for any, so
// that nobody else has it by the time that a daemon does.
func listenBelow() (l net.Listener, err error) {
	for range 1000 {
		if l, err = net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", 10_000+rand.IntN(20_000))); err == nil {
			return l, nil
		}
	}
	return nil, err
}

// release lets the daemons have the ports.
func (n *network) release() error {
	for _, l := range n.ends {
		l.Close()
	}
	return n.err
}

func (n *network) fail(format string, args ...any) {
	if n.err == nil {
		n.err = fmt.Errorf(format, args...)
	}
}

// place rewrites a container's settings for this machine. Afterwards call release.
func (n *network) place(c *container) *placed {
	p := &placed{container: c}
	for _, a := range c.args {
		p.args = append(p.args, n.argument(c, a))
	}
	for _, key := range slices.Sorted(maps.Keys(c.env)) {
		setting := strings.ToLower(strings.ReplaceAll(strings.TrimPrefix(key, "ALIQUOT_"), "_", "-"))
		p.env = append(p.env, key+"="+n.value(c, setting, c.env[key]))
	}
	for _, command := range c.health {
		var here []string
		for _, word := range command {
			if program := c.programs[word]; program != "" {
				word = program
			}
			here = append(here, n.addresses(c, word))
		}
		p.health = append(p.health, here)
	}
	if c.kind == "redis" {
		// The only words that a deployment leaves to the image's defaults.
		_, port, _ := net.SplitHostPort(n.port(c.host, redisPort))
		p.args = append(p.args, "--port", port, "--bind", "127.0.0.1")
		for i := range p.health {
			p.health[i] = append([]string{p.health[i][0], "-p", port}, p.health[i][1:]...)
		}
	}
	return p
}

const redisPort = "6379"

func (n *network) argument(c *container, a string) string {
	flag, value, found := strings.Cut(a, "=")
	name, isFlag := strings.CutPrefix(flag, "--")
	if !found || !isFlag {
		return n.value(c, "", a)
	}
	return flag + "=" + n.value(c, name, value)
}

// value translates the value of one setting.
func (n *network) value(c *container, setting, value string) string {
	if setting == "advertise" {
		// Others must find this container under the name, and this container itself, too.
		if n.names[value] != c.host {
			n.fail("%s advertises %q, and is known as %v", c.name, value, n.namesOf(c.host))
		}
		return "127.0.0.1"
	}
	if strings.HasPrefix(value, "/") {
		return n.path(c, value)
	}
	return n.addresses(c, value)
}

func (n *network) namesOf(host string) (out []string) {
	for name, h := range n.names {
		if h == host {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return out
}

// path translates a path of the container, which must be on something mounted: the
// rest of its file system is read-only and empty.
func (n *network) path(c *container, path string) string {
	for inside, here := range c.files {
		if rest, ok := strings.CutPrefix(path, inside); ok && (rest == "" || rest[0] == '/') {
			return here + rest
		}
	}
	n.fail("%s uses %s, and nothing is mounted there", c.name, path)
	return path
}

// address is a host and a port inside a value.
var address = regexp.MustCompile(`([A-Za-z0-9][A-Za-z0-9.-]*):([0-9]+)\b`)

// addresses translates every host:port in a value. 0.0.0.0 and loopback are the
// container's own host.
func (n *network) addresses(c *container, value string) string {
	return address.ReplaceAllStringFunc(value, func(found string) string {
		parts := address.FindStringSubmatch(found)
		host := c.host
		if parts[1] != "0.0.0.0" && parts[1] != "127.0.0.1" {
			if host = n.names[parts[1]]; host == "" {
				n.fail("%s looks for %s, a name that nothing has", c.name, found)
				return found
			}
		}
		return n.port(host, parts[2])
	})
}

// TestMistakesInPlacingAreFound: a wrong name, an unmounted path and a foreign name
// to advertise are errors, so that TestDeployments cannot pass over them.
func TestMistakesInPlacingAreFound(t *testing.T) {
	for name, args := range map[string][]string{
		"unknown host":  {"--coordinators=c9:7400"},
		"unmounted":     {"--state-file=/var/lib/aliquot/state.json"},
		"other's name":  {"--advertise=c2"},
		"nobody's name": {"--advertise=c9"},
	} {
		n := newNetwork()
		n.names["c1"], n.names["c2"] = "c1", "c2"
		n.place(&container{name: "c1", host: "c1", args: args})
		if n.release() == nil {
			t.Errorf("%s: %v was placed", name, args)
		}
	}
	n := newNetwork()
	n.names["c1"], n.names["c2"] = "c1", "c2"
	p := n.place(&container{name: "c1", host: "c1", args: []string{"--listen=0.0.0.0:7400", "--advertise=c1", "--join=c1:7402,c2:7402"}})
	if err := n.release(); err != nil {
		t.Fatal(err)
	}
	want := []string{"--listen=" + n.ports["c1:7400"], "--advertise=127.0.0.1", "--join=" + n.ports["c1:7402"] + "," + n.ports["c2:7402"]}
	if !slices.Equal(p.args, want) {
		t.Errorf("placed %v, want %v", p.args, want)
	}
}
