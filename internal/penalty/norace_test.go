//go:build !race

package penalty

const flood = 10_000_000
