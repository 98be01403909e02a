//go:build !race

package sim

const faultHours = 10 // half a minute
