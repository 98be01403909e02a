package rest

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"connectrpc.com/connect"

	aliquotv1 "aliquot/proto/aliquot/v1"
)

// failing refuses every change with an error.
type failing struct {
	err     error
	rollout *aliquotv1.Rollout
}

func (f failing) GetRules(context.Context, *aliquotv1.GetRulesRequest) (*aliquotv1.GetRulesResponse, error) {
	return &aliquotv1.GetRulesResponse{Version: 8, Rollout: f.rollout}, nil
}

func (f failing) EditRules(context.Context, *aliquotv1.EditRulesRequest) (*aliquotv1.ApplyRulesResponse, error) {
	return nil, f.err
}

// A conditional change answers 412 if it was refused for the version, and only then: 412 says that it was not made.
func TestPreconditionFailed(t *testing.T) {
	conflict := connect.NewError(connect.CodeFailedPrecondition, errors.New("8 is in force"))
	detail, err := connect.NewErrorDetail(&aliquotv1.RulesVersionConflict{Expected: 7, InForce: 8})
	if err != nil {
		t.Fatal(err)
	}
	conflict.AddDetail(detail)
	for name, c := range map[string]struct {
		err  error
		want int
	}{
		"another version":       {conflict, http.StatusPreconditionFailed},
		"an unknown outcome":    {connect.NewError(connect.CodeUnavailable, errors.New("the command may or may not have been applied")), http.StatusServiceUnavailable},
		"no leader":             {connect.NewError(connect.CodeUnavailable, errors.New("no leader")), http.StatusServiceUnavailable},
		"a bad value":           {connect.NewError(connect.CodeInvalidArgument, errors.New("limit")), http.StatusBadRequest},
		"another condition":     {connect.NewError(connect.CodeFailedPrecondition, errors.New("nothing is in force")), http.StatusConflict},
		"an error of no RPC":    {errors.New("strange"), http.StatusInternalServerError},
		"not answered in time":  {connect.NewError(connect.CodeDeadlineExceeded, errors.New("late")), http.StatusGatewayTimeout},
		"a tier without a name": {connect.NewError(connect.CodeNotFound, errors.New("no tier")), http.StatusNotFound},
	} {
		mux := http.NewServeMux()
		Register(mux, failing{err: c.err})
		r := httptest.NewRequest(http.MethodPut, "/rules/tier/free", strings.NewReader(`{"limit":5,"capacity":5}`))
		r.Header.Set("If-Match", `"7"`)
		w := httptest.NewRecorder()
		mux.ServeHTTP(w, r)
		if w.Code != c.want {
			t.Errorf("%s: %d %s, want %d", name, w.Code, w.Body, c.want)
		}
	}
}

// Who asks again for JSON hears of a version that was staged meanwhile; the file in force is the same.
func TestAStagedVersionIsAChange(t *testing.T) {
	for _, c := range []struct {
		accept  string
		rollout *aliquotv1.Rollout
		want    int
	}{
		{"", nil, http.StatusNotModified},
		{"application/json", nil, http.StatusNotModified},
		{"", &aliquotv1.Rollout{Version: 9}, http.StatusNotModified},
		{"application/json", &aliquotv1.Rollout{Version: 9}, http.StatusOK},
	} {
		mux := http.NewServeMux()
		Register(mux, failing{rollout: c.rollout})
		r := httptest.NewRequest(http.MethodGet, "/rules", nil)
		r.Header.Set("If-None-Match", `"8"`)
		r.Header.Set("Accept", c.accept)
		w := httptest.NewRecorder()
		if mux.ServeHTTP(w, r); w.Code != c.want {
			t.Errorf("%q, rollout %v: %d, want %d", c.accept, c.rollout, w.Code, c.want)
		}
	}
}
