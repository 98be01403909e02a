// Package capacity estimates what an installation of a given size needs, from unit costs
// that were measured. It is arithmetic, no promise: docs/how-to/plan-capacity.md says where it was
// checked.
package capacity
