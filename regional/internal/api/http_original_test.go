package api

import (
	"errors"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"aliquot/internal/identity"
	"aliquot/regional/internal/charge"
)

// FuzzOriginal: what a proxy, or its client, sends to /check is read or refused, and a
// query that the client wrote never says what its request costs.
func FuzzOriginal(f *testing.F) {
	f.Add("/check?cost=2&namespace=n&deny_status=403", "/v1/orders?x=1", "", "POST")
	f.Add("/check/v1/%6frders?cost=5", "", "/b", "")
	f.Add("/check?namespace=mine", "", "/a?namespace=mine", "GET")
	rules, err := identity.New(identity.DefaultConfig())
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, target, originalURI, forwardedURI, method string) {
		u, err := url.ParseRequestURI(target)
		if err != nil || u.EscapedPath() != checkPath && !strings.HasPrefix(u.EscapedPath(), checkPath+"/") {
			return // the server refuses it, or it goes elsewhere
		}
		h := http.Header{"X-Original-Uri": {originalURI}, "X-Forwarded-Uri": {forwardedURI}, "X-Original-Method": {method}}
		o, err := originalOf(&http.Request{Method: "GET", URL: u, Header: h}, u.EscapedPath(), []string{"key"})
		if err != nil {
			if !errors.Is(err, charge.ErrInvalid) {
				t.Fatal(err)
			}
			return
		}
		if o.denyStatus != 0 && (o.denyStatus < 400 || o.denyStatus > 599) {
			t.Errorf("deny status %d", o.denyStatus)
		}
		told := o.cost != 1 || o.namespace != "" || o.denyStatus != 0 && u.EscapedPath() == checkPath
		if _, query, _ := strings.Cut(o.uri, "?"); told && query == u.RawQuery && (originalURI != "" || forwardedURI != "" || u.EscapedPath() != checkPath) {
			t.Errorf("the client's query %q decides %+v", query, o)
		}
		if originalURI != "" && forwardedURI != "" && originalURI != forwardedURI && u.EscapedPath() == checkPath {
			t.Errorf("%q and %q were both taken", originalURI, forwardedURI)
		}
		if _, err := rules.Attributes(identity.Request{Header: h, Method: o.method, URI: o.uri}); err != nil && !errors.Is(err, identity.ErrInvalid) {
			t.Error(err)
		}
	})
}
