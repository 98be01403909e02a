package regional

import "testing"

// FuzzStateFile: a state file that is damaged in any way is refused or read, and never ends the daemon.
func FuzzStateFile(f *testing.F) {
	f.Add([]byte(`{"format":1,"region":"us","cluster":{},"rules":{},"epoch":3,"daemon":"0a","others":["1"]}`))
	f.Add([]byte(`{"format":2}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		if s, err := parseState(data); err == nil && s.Format != stateFormat {
			t.Errorf("format %d is read", s.Format)
		} else if err == nil {
			s.others()
		}
	})
}
