package ruleset

import (
	"strings"
	"testing"
)

func TestTheAuthorHasANameWithoutUSER(t *testing.T) {
	t.Setenv("USER", "")
	if got := whoami(); got == "" || strings.HasPrefix(got, "@") {
		t.Errorf("the author is %q", got)
	}
}
