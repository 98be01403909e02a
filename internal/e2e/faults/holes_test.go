package faults

import "testing"

// TestHolesFollowTheCode: every text that a hole replaces occurs in the code.
func TestHolesFollowTheCode(t *testing.T) {
	if _, err := withHoles("../../.."); err != nil {
		t.Error(err)
	}
}
