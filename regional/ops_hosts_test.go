package regional

import (
	"net/http"
	"net/http/httptest"
	"testing"
)

// TestPagesOfOthersReadNoKeys: a web page whose name was pointed at the ops listener reads neither keys nor clients.
// Metrics and health, which have none, are answered under any name: scrapers and probes use names of their own.
func TestPagesOfOthersReadNoKeys(t *testing.T) {
	d, _ := startLive(t, testConfig(newLeader(t, failRules).address()))
	for path, want := range map[string]int{
		"/hotkeys": http.StatusForbidden, "/hotkeys?values=true": http.StatusForbidden, "/held": http.StatusForbidden,
		"/metrics": http.StatusOK, "/healthz": http.StatusOK,
	} {
		for host, want := range map[string]int{"page.example.com": want, "127.0.0.1:7503": http.StatusOK, "regional-0.aliquot.svc:7503": http.StatusOK} {
			if path == "/hotkeys?values=true" && want == http.StatusOK {
				want = http.StatusBadRequest // no values are remembered
			}
			request, answer := httptest.NewRequest(http.MethodGet, "http://"+host+path, http.NoBody), httptest.NewRecorder()
			d.ops.Handler.ServeHTTP(answer, request)
			if answer.Code != want {
				t.Errorf("%s of %s: %d, want %d: %s", path, host, answer.Code, want, answer.Body)
			}
		}
	}
}
