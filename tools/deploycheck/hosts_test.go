package deploycheck

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// systemdContainers are three hosts with a coordinator each, made of the example as its
// comment says, and a host with a regional daemon and a Redis for every region.
func systemdContainers(t *testing.T, b built) (*network, []*container) {
	t.Helper()
	n := newNetwork()
	var redis, coordinators, regionals []*container
	for i := 1; i <= 3; i++ {
		host := fmt.Sprintf("10.0.1.%d", i)
		n.names[host] = host
		own := strings.NewReplacer("10.0.1.1", host, host, "10.0.1.1", "node-id: c1", fmt.Sprintf("node-id: c%d", i))
		coordinators = append(coordinators, systemdContainer(t, b, n, "coordinator", host, "", own))
	}
	for _, region := range regionsOf(t) {
		host := "host-" + region
		n.names[host] = host
		redis = append(redis, &container{
			name: "redis-" + region, host: host, kind: "redis", program: findRedis(t, "redis-server"),
			args:   []string{"--save", "", "--appendonly", "no", "--maxmemory-policy", "noeviction"},
			health: [][]string{{"redis-cli", "ping"}},
		})
		regionals = append(regionals, systemdContainer(t, b, n, "regional", host, region, strings.NewReplacer()))
	}
	return n, slices.Concat(redis, coordinators, regionals)
}

func regionsOf(t *testing.T) []string {
	t.Helper()
	return settingsOf(t, read(t, filepath.Join(repository(t), systemdDir, "coordinator.yaml"))).lists["regions"]
}

// systemdContainer starts a unit's command line with the example's configuration file,
// as it is; only addresses and paths are set again by flags, which win.
func systemdContainer(t *testing.T, b built, n *network, kind, host, instance string, own *strings.Replacer) *container {
	t.Helper()
	name := map[string]string{"coordinator": "aliquot-coordinator.service", "regional": "aliquot-regional@.service"}[kind]
	service := loadUnit(t, name)["Service"]
	text := own.Replace(string(read(t, filepath.Join(repository(t), systemdDir, kind+".yaml"))))
	credentials, states := t.TempDir(), t.TempDir()
	credential, _, _ := strings.Cut(service["LoadCredential"][0], ":")
	write(t, filepath.Join(credentials, credential), text)
	expand := strings.NewReplacer("%i", instance, "%d", "/run/credentials", "%S", "/var/lib")
	line := strings.Fields(expand.Replace(service["ExecStart"][0]))
	state := filepath.Join(states, expand.Replace(service["StateDirectory"][0]))
	if err := os.Mkdir(state, 0o700); err != nil {
		t.Fatal(err)
	}
	c := b.container(t, kind, kind+"-"+host, line[1:], nil)
	if filepath.Base(line[0]) != filepath.Base(c.program) {
		t.Fatalf("%s starts %s", name, line[0])
	}
	c.host, c.env = host, nil // a unit has none of the image's environment
	c.files = map[string]string{
		"/run/credentials":                 credentials,
		"/var/lib/" + filepath.Base(state): state,
		"/etc/aliquot/rules.yaml":          filepath.Join(repository(t), "deploy/local/rules.yaml"),
	}
	c.args = append(c.args, settingsOf(t, []byte(text)).flags()...)
	return c
}

// settings are those of a configuration file that depend on the machine.
type settings struct {
	plain map[string]string
	lists map[string][]string
}

func settingsOf(t *testing.T, text []byte) settings {
	t.Helper()
	all := map[string]any{}
	if err := yaml.UnmarshalStrict(text, &all); err != nil {
		t.Fatal(err)
	}
	s := settings{plain: map[string]string{}, lists: map[string][]string{}}
	for key, value := range all {
		switch v := value.(type) {
		case string:
			s.plain[key] = v
		case []any:
			for _, item := range v {
				s.lists[key] = append(s.lists[key], fmt.Sprint(item))
			}
		}
	}
	return s
}

// flags repeat what holds an address or a path, for placing.
func (s settings) flags() (out []string) {
	for key, value := range s.plain {
		if _, _, err := net.SplitHostPort(value[strings.LastIndex(value, "/")+1:]); err == nil || strings.HasPrefix(value, "/") {
			out = append(out, "--"+key+"="+value)
		}
	}
	for key, values := range s.lists {
		if address.MatchString(strings.Join(values, ",")) {
			out = append(out, "--"+key+"="+strings.Join(values, ","))
		}
	}
	slices.Sort(out)
	return out
}
