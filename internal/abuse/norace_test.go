//go:build !race

package abuse

const flood = 10_000_000
