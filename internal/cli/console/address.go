package console

import (
	"cmp"
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/goccy/go-yaml"

	"aliquot/internal/rpc"
)

// The environment names what to ask where no flag does. Several addresses stand with commas
// between them; the first one that takes a connection is asked.
const (
	AddrVar    = "ALIQUOT_ADDR"
	RegionVar  = "ALIQUOT_REGION_ADDR"
	ContextVar = "ALIQUOT_CONTEXT"
	ConfigVar  = "ALIQUOT_CONFIG"
)

// dialWithin bounds the look at one of several addresses.
const dialWithin = time.Second

// Contexts is the file of named installations.
type Contexts struct {
	Current  string                  `json:"current,omitempty" yaml:"current,omitempty"`
	Contexts map[string]Installation `json:"contexts" yaml:"contexts"`
}

// Installation is one installation: addresses with commas between them, empty for the default.
type Installation struct {
	Coordinators string `json:"coordinators,omitempty" yaml:"coordinators,omitempty"`
	Regions      string `json:"regions,omitempty" yaml:"regions,omitempty"`
	Ops          string `json:"ops,omitempty" yaml:"ops,omitempty"`
}

// Check returns a UsageError for an address that no command could ask.
func (i *Installation) Check() error {
	for _, of := range []struct{ flag, addresses string }{{"coordinators", i.Coordinators}, {"regions", i.Regions}, {"ops", i.Ops}} {
		for _, address := range split(of.addresses) {
			if strings.Contains(address, "://") {
				continue // a URL, which has a port of its own, or the path of a socket
			}
			if host, port, err := net.SplitHostPort(address); err != nil || host == "" || port == "" {
				return Usagef("--%s %q: give host:port or a URL", of.flag, address)
			}
		}
	}
	return nil
}

// contextsPath is where the file is.
func contextsPath() (string, error) {
	if path := os.Getenv(ConfigVar); path != "" {
		return path, nil
	}
	dir, err := os.UserConfigDir()
	if err != nil {
		return "", fmt.Errorf("no place for contexts: %w; name a file with %s", err, ConfigVar)
	}
	return filepath.Join(dir, "aliquot", "contexts.yaml"), nil
}

// ReadContexts is the file, empty if there is none.
func ReadContexts() (Contexts, error) {
	out := Contexts{Contexts: map[string]Installation{}}
	path, err := contextsPath()
	if err != nil {
		return out, nil // no home: no contexts either
	}
	data, err := os.ReadFile(path)
	if os.IsNotExist(err) {
		return out, nil
	}
	if err != nil {
		return out, fmt.Errorf("contexts: %w", err)
	}
	if err := yaml.UnmarshalWithOptions(data, &out, yaml.Strict()); err != nil {
		named := ""
		if os.Getenv(ConfigVar) != "" {
			named = ", which " + ConfigVar + " names: it must be a file that 'aliquot context' writes; the settings of a daemon are another file"
		}
		return out, fmt.Errorf("contexts in %s%s: %s", path, named, FirstLine(err))
	}
	if out.Contexts == nil {
		out.Contexts = map[string]Installation{}
	}
	return out, nil
}

// Write replaces the file of contexts by c.
func (c Contexts) Write() error {
	path, err := contextsPath()
	if err != nil {
		return err
	}
	data, err := yaml.Marshal(c)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	return os.WriteFile(path, data, 0o600)
}

// resolve settles which installation is asked, before a command runs.
func (g *Globals) resolve() error {
	if g.addr != "" {
		return nil
	}
	all, err := ReadContexts()
	if err != nil {
		return err
	}
	name := cmp.Or(g.context, os.Getenv(ContextVar), all.Current)
	if name == "" {
		return nil
	}
	one, known := all.Contexts[name]
	if !known {
		return Usagef("there is no context %q; 'aliquot context list' shows those there are", name)
	}
	g.at = one
	return nil
}

// choice are the addresses to ask, of the first place that names any: the flag, a context that
// a flag names, the environment, the context in use, the default.
func (g *Globals) choice(variables []string, inContext, otherwise string) string {
	if g.addr != "" {
		return g.addr
	}
	if g.context != "" && inContext != "" {
		return inContext
	}
	for _, name := range variables {
		if value := os.Getenv(name); value != "" {
			return value
		}
	}
	return cmp.Or(inContext, otherwise)
}

// pick is the first of several addresses that takes a connection, once for a command; the first
// of all if none does.
func (g *Globals) pick(addresses string) string {
	if !strings.Contains(addresses, ",") {
		return addresses
	}
	if address, known := g.picked[addresses]; known {
		return address
	}
	all := split(addresses)
	picked := all[0]
	for _, address := range all {
		if answers(address) {
			picked = address
			break
		}
	}
	if g.picked == nil {
		g.picked = map[string]string{}
	}
	g.picked[addresses] = picked
	return picked
}

// split returns addresses that have commas between them.
func split(addresses string) []string {
	return strings.FieldsFunc(addresses, func(r rune) bool { return r == ',' || r == ' ' })
}

// answers reports whether something takes a connection at an address.
func answers(address string) bool {
	network, at := "tcp", address
	if path, ok := rpc.UnixPath(address); ok {
		network, at = "unix", path
	} else if u, err := url.Parse(rpc.BaseURL(address)); err == nil {
		at = u.Host
		if u.Port() == "" {
			at = net.JoinHostPort(u.Hostname(), cmp.Or(map[string]string{"https": "443"}[u.Scheme], "80"))
		}
	}
	c, err := net.DialTimeout(network, at, dialWithin)
	if err != nil {
		return false
	}
	c.Close()
	return true
}
