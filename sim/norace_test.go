//go:build !race

package sim

const (
	faultHours  = 16 // half a minute
	plantsTried = 18
)
