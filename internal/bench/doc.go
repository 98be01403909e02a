// Package bench drives regional daemons as a client would that wants more than
// its limit, and measures what it got: admitted requests against the bound that
// the limit promises, over the whole run and over every interval in it.
package bench
