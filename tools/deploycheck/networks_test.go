package deploycheck

import (
	"slices"
	"strings"
	"testing"

	"github.com/compose-spec/compose-go/v2/types"
)

// TestComposeNetworks: who can talk to whom is exactly what is needed.
func TestComposeNetworks(t *testing.T) {
	p := composeProject(t)
	for name, s := range p.Services {
		region, isRedis := strings.CutPrefix(name, "redis-")
		if !isRedis {
			continue
		}
		if got := networksOf(s); !slices.Equal(got, []string{region}) || !bool(p.Networks[region].Internal) || len(s.Ports) > 0 {
			t.Errorf("%s is on the networks %v; it must be on %s alone, which must be internal", name, got, region)
		}
		if got := membersOf(p, region); !slices.Equal(got, []string{name, "regional-" + region}) {
			t.Errorf("the network %s has the members %v", region, got)
		}
		checkRedis(t, name, s.Command)
	}
	for name, s := range p.Services {
		for _, text := range append(slices.Clone(s.Command), environment(s)...) {
			for _, found := range address.FindAllStringSubmatch(text, -1) {
				if host := found[1]; host != "0.0.0.0" && host != "127.0.0.1" && !reachable(p, name, host) {
					t.Errorf("%s is to reach %s and shares no network with it", name, found[0])
				}
			}
		}
	}
}

// checkRedis: the settings that the page about the Redis of a region asks for.
func checkRedis(t *testing.T, name string, args []string) {
	t.Helper()
	line := strings.Join(args, " ") + " "
	for _, needed := range []string{"--save  ", "--appendonly no ", "--maxmemory-policy noeviction ", "--hz 100 ", "--maxmemory 256mb "} {
		if !strings.Contains(line, needed) {
			t.Errorf("%s: %q does not say %q", name, line, needed)
		}
	}
}

func networksOf(s types.ServiceConfig) (out []string) {
	for n := range s.Networks {
		out = append(out, n)
	}
	slices.Sort(out)
	return out
}

func membersOf(p *types.Project, network string) (out []string) {
	for name, s := range p.Services {
		if slices.Contains(networksOf(s), network) {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return out
}

func reachable(p *types.Project, from, to string) bool {
	other, ok := p.Services[to]
	return ok && slices.ContainsFunc(networksOf(p.Services[from]), func(n string) bool { return slices.Contains(networksOf(other), n) })
}

func environment(s types.ServiceConfig) (out []string) {
	for _, value := range s.Environment {
		if value != nil {
			out = append(out, *value)
		}
	}
	return out
}
