package e2e

import (
	"fmt"
	"slices"
)

// Ops returns the address of the coordinator's metrics and health.
func (c *Coordinator) Ops() string { return c.Flag("--ops-listen") }

// Ops returns the address of the region's metrics and health.
func (r *Region) Ops() string { return r.Flag("--ops-listen") }

// Flag returns the value of a flag of the process; empty if it has none.
func (p *Process) Flag(name string) string {
	if i := slices.Index(p.command, name); i >= 0 && i+1 < len(p.command) {
		return p.command[i+1]
	}
	return ""
}

// SetFlag changes the value of a flag from the process's next start on.
func (p *Process) SetFlag(name, value string) error {
	i := slices.Index(p.command, name)
	if i < 0 || i+1 >= len(p.command) {
		return fmt.Errorf("%s was not given %s", p.Name, name)
	}
	p.command[i+1] = value
	return nil
}

// AddFlags gives the process more arguments from its next start on.
func (p *Process) AddFlags(arguments ...string) { p.command = append(p.command, arguments...) }
