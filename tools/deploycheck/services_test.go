package deploycheck

import (
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/compose-spec/compose-go/v2/types"
)

// composeContainers are the services that can run here; Prometheus and Grafana are
// tested elsewhere.
func composeContainers(t *testing.T, b built) (*network, []*container) {
	t.Helper()
	p, n := composeProject(t), newNetwork()
	byKind := map[string][]*container{}
	for _, name := range p.ServiceNames() {
		n.names[name] = name
		c := composeContainer(t, b, p.Services[name])
		if c == nil {
			continue
		}
		for _, v := range p.Services[name].Volumes {
			c.files[v.Target] = v.Source
			if v.Type == types.VolumeTypeVolume {
				c.files[v.Target] = t.TempDir()
			}
		}
		byKind[c.kind] = append(byKind[c.kind], c)
	}
	return n, slices.Concat(byKind["redis"], byKind["coordinator"], byKind["regional"])
}

func composeContainer(t *testing.T, b built, s types.ServiceConfig) *container {
	t.Helper()
	health := slices.Clone(s.HealthCheck.Test)
	if health[0] != "CMD" {
		t.Fatalf("%s: the health check %v needs a shell", s.Name, health)
	}
	switch {
	case s.Build != nil:
		env := map[string]string{}
		for key, value := range s.Environment {
			env[key] = *value
		}
		c := b.container(t, s.Build.Target, s.Name, s.Command, env)
		c.health = append(c.health, health[1:])
		return c
	case strings.HasPrefix(s.Image, "redis:"):
		return &container{
			name: s.Name, host: s.Name, kind: "redis", program: findRedis(t, s.Command[0]), args: s.Command[1:],
			files: map[string]string{}, health: [][]string{health[1:]},
		}
	}
	return nil
}

// findRedis finds the real server or its client.
func findRedis(t *testing.T, program string) string {
	t.Helper()
	path, err := exec.LookPath(program)
	if err != nil {
		t.Fatalf("%v: `make test` installs it (Debian: redis-server)", err)
	}
	return path
}
