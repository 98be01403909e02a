package envoydiff

import (
	"path/filepath"
	"strings"
	"testing"
)

// clientRules hardly refill while the test runs.
const clientRules = `
rules:
  - {id: per-tenant, match: {attributes: {domain: shop, tenant: "?*"}}, key: [tenant], params: {limit: 100, window: 1d}}
  - {id: per-address, match: {attributes: {domain: shop, remote_address: "?*"}}, key: [remote_address], params: {limit: 50, window: 1s}}
`

// TestOtherClients has clients that people use ask a region.
func TestOtherClients(t *testing.T) {
	curl, client := filepath.Join(t.TempDir(), "grpcurl"), peerProgram(t, "client_cmd")
	command(t, nil, "go", "build", "-o", curl, grpcurlProgram)
	at := startAliquot(t, []byte(clientRules))
	list := command(t, nil, curl, "-plaintext", at, "list")
	for _, service := range []string{"envoy.service.ratelimit.v3.RateLimitService", "aliquot.v1.LimiterService", "grpc.health.v1.Health"} {
		if !strings.Contains(list, service+"\n") {
			t.Errorf("grpcurl does not find %s:\n%s", service, list)
		}
	}
	const method = "envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit"
	one := command(t, nil, curl, "-plaintext", "-d", `{"domain": "shop", "descriptors": [{"entries": [{"key": "tenant", "value": "t1"}]}], "hits_addend": 100}`, at, method)
	for _, line := range []string{`"overallCode": "OK"`, `"name": "per-tenant"`, `"requestsPerUnit": 100`, `"unit": "DAY"`} {
		if !strings.Contains(one, line) {
			t.Errorf("grpcurl does not print %s:\n%s", line, one)
		}
	}
	two := command(t, nil, client, "-dial_string", at, "-domain", "shop",
		"-descriptors", "tenant=t1", "-descriptors", "tenant=t2", "-descriptors", "remote_address=192.0.2.1")
	if strings.Count(two, "code:OVER_LIMIT") != 2 || strings.Count(two, "code:OK") != 2 || !strings.Contains(two, "response: overall_code:OVER_LIMIT") {
		t.Errorf("envoyproxy/ratelimit's client prints\n%s", two)
	}
}
