package faults

import "testing"

// TestHolesFollowTheCode: every repair that a hole takes out is still where it is looked for.
func TestHolesFollowTheCode(t *testing.T) {
	if _, err := heldOpen("../../.."); err != nil {
		t.Error(err)
	}
}
