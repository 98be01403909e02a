package cli

import (
	"net/http"
	"net/http/httptest"
	"testing"
)

func TestHotKeys(t *testing.T) {
	ops := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.String() {
		case "/hotkeys?n=20":
			w.Write([]byte(`{"region":"us","keys":[{"rule":"per-key","key_hash":"abc","checks_per_second":1234.5,"denied_per_second":34}]}`))
		case "/held":
			w.Write([]byte(`{"region":"us","held":5,"clients":[{"rule":"per-key","key_hash":"abc","state":"cooling","until":"2030-01-31T18:00:00Z"}]}`))
		case "/hotkeys?n=0":
			http.Error(w, "n must be a whole number from 1 to 1000", http.StatusBadRequest)
		default:
			http.NotFound(w, r)
		}
	}))
	defer ops.Close()
	command(t, "", "hotkeys", "--addr", ops.URL).want(t, exitOK, "RULE", "CHECKS/S", "per-key", "abc", "1234.5", "34")
	command(t, "", "hotkeys", "--addr", ops.URL, "-o", "json").want(t, exitOK, `"keyHash":"abc","checksPerSecond":1234.5`)
	command(t, "", "hotkeys", "--held", "--addr", ops.URL).want(t, exitOK, "cooling", "2030-01-31T18:00:00Z", "and 4 more")
	command(t, "", "hotkeys", "-n", "0", "--addr", ops.URL).want(t, exitError, "from 1 to 1000")
	command(t, "", "hotkeys", "-n", "7", "--addr", ops.URL).want(t, exitError, "is this an ops listener?")
	command(t, "", "hotkeys", "--addr", unused(t)).want(t, exitError, "connection refused", "--addr")
}
