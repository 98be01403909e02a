package faults

import "testing"

func TestSelectionsAreWrittenAndRead(t *testing.T) {
	for _, s := range []string{"none", "0", "3,17", "3,messages lost", "slow commits,drifting clocks"} {
		if parsed, err := ParseSelection(s); err != nil || parsed.String() != s {
			t.Errorf("%q is %v, %v", s, parsed, err)
		}
	}
	for _, s := range []string{"", "-1", "x", "leader dies", "1,,2"} {
		if parsed, err := ParseSelection(s); err == nil {
			t.Errorf("%q is %v", s, parsed)
		}
	}
}
