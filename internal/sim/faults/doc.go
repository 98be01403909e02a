// Package faults names the kinds of trouble of a simulated world, picks some of it, and draws when
// steady trouble strikes.
package faults
