package sim
import "testing"
func TestSoak(t *testing.T) {
	r := Run(1000, 100, Options{})
	t.Logf("%d worlds, %v, %d events, %d faults, %d tokens", r.Worlds, r.Virtual, r.Events, r.Faults, r.Admitted)
	for _, v := range r.Violations { t.Error(v) }
}
func TestTwins(t *testing.T) {
	r := Run(1000, 10, Options{LongTwins: true})
	t.Logf("LongTwins: %d worlds, %d violations", r.Worlds, len(r.Violations))
}
