package e2e

import (
	"fmt"
	"slices"
)

// Ops is where the coordinator's metrics and health are.
func (c *Coordinator) Ops() string { return c.Flag("--ops-listen") }

// Ops is where the region's metrics and health are.
func (r *Region) Ops() string { return r.Flag("--ops-listen") }

// Flag is the value that the process was given for a flag; empty if none.
func (p *Process) Flag(name string) string {
	if i := slices.Index(p.command, name); i >= 0 && i+1 < len(p.command) {
		return p.command[i+1]
	}
	return ""
}

// SetFlag changes the value of a flag for the process's next life.
func (p *Process) SetFlag(name, value string) error {
	i := slices.Index(p.command, name)
	if i < 0 || i+1 >= len(p.command) {
		return fmt.Errorf("%s was not given %s", p.Name, name)
	}
	p.command[i+1] = value
	return nil
}

// AddFlags gives the process more arguments from its next life on.
func (p *Process) AddFlags(arguments ...string) { p.command = append(p.command, arguments...) }
