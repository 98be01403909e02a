package sim

import (
	"fmt"
	"os"
	"strconv"
	"testing"
	"time"
)

func TestDbg(t *testing.T) {
	s, _ := strconv.Atoi(os.Getenv("SEED"))
	f, _ := strconv.ParseFloat(os.Getenv("F"), 64)
	from, _ := strconv.ParseFloat(os.Getenv("FROM"), 64)
	w := newWorld(uint64(s), Options{}, time.Duration(f*1e9))
	w.dbg = func(e entry) {
		if float64(e.at)/1e9 >= from {
			fmt.Printf("%12.6f %-20s %d: %d %d %d %d\n", float64(e.at)/1e9, e.what, e.who, e.a, e.b, e.c, e.d)
		}
	}
	w.guarded(int64(w.faultsEnd))
	if w.failure == nil {
		w.recover()
	}
	fmt.Println(w.failure)
	for _, n := range w.nodes {
		fmt.Printf("%d of %d: %+v calling %v target %v\n", n.name, n.region, n.machine.Info(n.now()), n.calling, n.target != nil)
	}
}
