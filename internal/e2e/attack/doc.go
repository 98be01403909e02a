// Package attack attacks a coordinator and a regional daemon, as real processes, with hostile bytes and
// overload, and says what they took of memory and whether they kept their lease. `make attack` runs it at
// full length, its tests without -long in a short form.
package attack
