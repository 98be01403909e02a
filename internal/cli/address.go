package cli

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
	addrVar    = "ALIQUOT_ADDR"
	regionVar  = "ALIQUOT_REGION_ADDR"
	contextVar = "ALIQUOT_CONTEXT"
	configVar  = "ALIQUOT_CONFIG"
)

// dialWithin bounds the look at one of several addresses.
const dialWithin = time.Second

// contexts is the file of named installations.
type contexts struct {
	Current  string                  `json:"current,omitempty" yaml:"current,omitempty"`
	Contexts map[string]installation `json:"contexts" yaml:"contexts"`
}

// installation is one installation: addresses with commas between them, empty for the default.
type installation struct {
	Coordinators string `json:"coordinators,omitempty" yaml:"coordinators,omitempty"`
	Regions      string `json:"regions,omitempty" yaml:"regions,omitempty"`
	Ops          string `json:"ops,omitempty" yaml:"ops,omitempty"`
}

// contextsPath is where the file is.
func contextsPath() (string, error) {
	if path := os.Getenv(configVar); path != "" {
		return path, nil
	}
	dir, err := os.UserConfigDir()
	if err != nil {
		return "", fmt.Errorf("no place for contexts: %w; name a file with %s", err, configVar)
	}
	return filepath.Join(dir, "aliquot", "contexts.yaml"), nil
}

// readContexts is the file, empty if there is none.
func readContexts() (contexts, error) {
	out := contexts{Contexts: map[string]installation{}}
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
		return out, fmt.Errorf("contexts in %s: %s", path, shortOf(err))
	}
	if out.Contexts == nil {
		out.Contexts = map[string]installation{}
	}
	return out, nil
}

func (c contexts) write() error {
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
func (g *globals) resolve() error {
	if g.addr != "" {
		return nil
	}
	all, err := readContexts()
	if err != nil {
		return err
	}
	name := cmp.Or(g.context, os.Getenv(contextVar), all.Current)
	if name == "" {
		return nil
	}
	one, known := all.Contexts[name]
	if !known {
		return usagef("there is no context %q; 'aliquot context list' shows those there are", name)
	}
	g.at = one
	return nil
}

// choice are the addresses to ask, of the first place that names any: the flag, a context that
// a flag names, the environment, the context in use, the default.
func (g *globals) choice(variables []string, inContext, otherwise string) string {
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
func (g *globals) pick(addresses string) string {
	if !strings.Contains(addresses, ",") {
		return addresses
	}
	if address, known := g.picked[addresses]; known {
		return address
	}
	all := strings.FieldsFunc(addresses, func(r rune) bool { return r == ',' || r == ' ' })
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
