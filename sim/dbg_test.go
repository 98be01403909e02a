package sim
import ("testing";"os";"strconv";"strings")
func TestDbg(t *testing.T) {
	s, _ := strconv.Atoi(os.Getenv("SEED"))
	r := Run(uint64(s), 0.1, Options{})
	for _, v := range r.Violations { t.Log(v.What, v.At, v.Faults, "\n"+strings.Join(v.Trace,"\n")) }
}
