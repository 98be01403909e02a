package main

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

func TestExitCodes(t *testing.T) {
	mux := http.NewServeMux()
	mux.HandleFunc("/healthz", func(http.ResponseWriter, *http.Request) {})
	mux.HandleFunc("/readyz", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) })
	mux.Handle("/moved", http.RedirectHandler("/healthz", http.StatusFound))
	server := httptest.NewServer(mux)
	defer server.Close()
	gone := httptest.NewServer(mux)
	gone.Close()

	for _, c := range []struct {
		name string
		args []string
		code int
		want string
	}{
		{"healthy", []string{server.URL + "/healthz"}, exitHealthy, ""},
		{"unavailable", []string{server.URL + "/readyz"}, exitUnhealthy, "503"},
		{"redirect", []string{server.URL + "/moved"}, exitUnhealthy, "302"},
		{"nobody listens", []string{gone.URL}, exitUnhealthy, "refused"},
		{"no URL", nil, exitUnhealthy, "usage"},
		{"two URLs", []string{"a", "b"}, exitUnhealthy, "usage"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var stderr strings.Builder
			if code := run(c.args, &stderr); code != c.code || !strings.Contains(stderr.String(), c.want) {
				t.Errorf("exit %d, printed %q; want %d and %q", code, stderr.String(), c.code, c.want)
			}
		})
	}
}
