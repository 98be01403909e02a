package config_test

import (
	"bytes"
	"strings"
	"testing"

	"aliquot/internal/config"
)

func TestNewLogger(t *testing.T) {
	var out bytes.Buffer
	log, err := config.NewLogger(&out, "warn", "json")
	if err != nil {
		t.Fatal(err)
	}
	log.Info("quiet")
	log.Warn("heard", "n", 1)
	if got := out.String(); strings.Contains(got, "quiet") || !strings.Contains(got, `"msg":"heard"`) {
		t.Errorf("wrote %q", got)
	}
	for _, c := range [][2]string{{"loud", "text"}, {"info", "xml"}} {
		if _, err := config.NewLogger(&out, c[0], c[1]); err == nil {
			t.Errorf("level %q, format %q: accepted", c[0], c[1])
		}
	}
}
