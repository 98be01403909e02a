package sim

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
)

func TestProbe(t *testing.T) {
	spec := os.Getenv("PROBE")
	if spec == "" {
		return
	}
	o := Options{}
	seeds, from := uint64(60), uint64(0)
	for _, f := range strings.Fields(spec) {
		k, v, _ := strings.Cut(f, "=")
		n, _ := strconv.Atoi(v)
		switch k {
		case "long":
			o.LongTwins = true
		case "stale":
			o.staleTwins = true
		case "plant":
			o.plant = plant(n)
		case "fault":
			o.faults = append(o.faults, fault(n))
		case "seeds":
			seeds = uint64(n)
		case "from":
			from = uint64(n)
		}
	}
	bad := 0
	for s := from; s < from+seeds; s++ {
		w := live(s, o, worldSpan-recovery)
		if w.failure != nil {
			bad++
			fmt.Println(s, w.failure.At, w.failure.What)
			if seeds == 1 {
				fmt.Println(strings.Join(w.lines(), "\n"))
			}
		}
	}
	fmt.Println("bad", bad, "of", seeds)
}
