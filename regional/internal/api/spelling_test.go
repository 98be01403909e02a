package api

import (
	"net/http/httptest"
	"testing"

	descriptorv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"

	aliquotv1 "aliquot/proto/aliquot/v1"
)

// TestNoSpellingOfAPathPassesALimit at any front door: each answers as to the plain path.
func TestNoSpellingOfAPathPassesALimit(t *testing.T) {
	s := serviceOf(t, "rules: [{id: r0, match: {endpoint_regex: \"^/s4\"}, key: [endpoint], params: {limit: 0}}]\n")
	for _, path := range []string{"/s4", "/s4?x=//", "//s4", "/%73%34", "/./s4", "/x/../s4", "/x%2F../s4", `/x\..\s4`, "/x;a/..;b/s4", "/%zz/../s4"} {
		of := map[string]string{"api_key": "k", "endpoint": path}
		check, err := s.Check(t.Context(), &aliquotv1.CheckRequest{Attributes: of})
		if check.GetAllowed() || check.GetReason() != "the limit r0 admits nothing; no waiting helps" || err != nil {
			t.Errorf("Check of %s: %v, %v", path, check, err)
		}
		batch, err := s.CheckBatch(t.Context(), &aliquotv1.CheckBatchRequest{Requests: []*aliquotv1.CheckRequest{{Attributes: of}, {Attributes: of}}})
		if n := len(batch.GetResults()); n != 2 || batch.GetResults()[0].GetResponse().GetAllowed() || batch.GetResults()[1].GetResponse().GetAllowed() || err != nil {
			t.Errorf("CheckBatch of %s: %v, %v", path, batch, err)
		}
		reserved, err := s.Reserve(t.Context(), &aliquotv1.ReserveRequest{Attributes: of})
		if reserved.GetDecision().GetAllowed() || err != nil {
			t.Errorf("Reserve of %s: %v, %v", path, reserved, err)
		}
		explained, err := s.Explain(t.Context(), &aliquotv1.ExplainRequest{What: &aliquotv1.ExplainRequest_Request{Request: &aliquotv1.CheckRequest{Attributes: of}}})
		if explained.GetDecision().GetAllowed() || err != nil {
			t.Errorf("Explain of %s: %v, %v", path, explained, err)
		}
		envoy, err := askEnvoy(t, s.envoy, &ratelimitv3.RateLimitRequest{Domain: "d", Descriptors: []*descriptorv3.RateLimitDescriptor{
			{Entries: []*descriptorv3.RateLimitDescriptor_Entry{{Key: "endpoint", Value: path}}},
		}})
		if envoy.GetOverallCode() != ratelimitv3.RateLimitResponse_OVER_LIMIT || err != nil {
			t.Errorf("Envoy's call about %s: %v, %v", path, envoy, err)
		}
		if path == "/%zz/../s4" {
			continue // 400 for a request target
		}
		in := httptest.NewRequest("GET", "/check", nil)
		in.Header.Set("X-Original-URI", path)
		in.RemoteAddr = "127.0.0.1:1"
		out := httptest.NewRecorder()
		s.HTTP().ServeHTTP(out, in)
		if out.Code != 429 {
			t.Errorf("GET /check of %s: %d %s", path, out.Code, out.Body)
		}
	}
}

// TestASpellingLeavesOtherRequestsAlone: requests of one message lie in one array.
func TestASpellingLeavesOtherRequestsAlone(t *testing.T) {
	s := serviceOf(t, "rules: [{id: r0, match: {endpoint_regex: \"^/s4\"}, key: [api_key], params: {limit: 5, window: 60}}]\n")
	one := func(path, key string) *aliquotv1.CheckRequest {
		return &aliquotv1.CheckRequest{Attributes: map[string]string{"endpoint": path, "api_key": key}}
	}
	out, err := s.CheckBatch(t.Context(), &aliquotv1.CheckBatchRequest{Requests: []*aliquotv1.CheckRequest{one("/x%2F../s4", "a"), one("/s4", "b"), one("/x/s4", "c")}})
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []string{"r0", "r0", ""} {
		if got := out.GetResults()[i].GetResponse(); got.GetRuleId() != want || !got.GetAllowed() {
			t.Errorf("request %d: %v, want rule %q", i, got, want)
		}
	}
}
