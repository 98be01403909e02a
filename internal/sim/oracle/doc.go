// Package oracle counts exactly what clients were given in a simulated world: by one bucket for the
// whole world and each key, and by an account of use for a counting limit. It reads no ledger, no
// leader and no record. Package sim says what it allows beyond that.
package oracle
