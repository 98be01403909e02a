package api

import (
	"bytes"
	"compress/gzip"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	aliquotv1 "aliquot/proto/aliquot/v1"
	"aliquot/proto/aliquot/v1/aliquotv1connect"
	"aliquot/regional/internal/background"
)

// TestUsualCallsPassConnectBy: what is plain does not come to connect-go. A large answer is
// compressed all the same.
func TestUsualCallsPassConnectBy(t *testing.T) {
	s := serviceOf(t, roomyRule)
	p := newPlainCalls(s, http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("the call came to connect-go") }))
	message, err := proto.Marshal(&aliquotv1.CheckRequest{Attributes: map[string]string{"api_key": "k"}})
	if err != nil {
		t.Fatal(err)
	}
	r := httptest.NewRequest("POST", aliquotv1connect.LimiterServiceCheckProcedure, bytes.NewReader(message))
	r.Header.Set("Content-Type", plainType)
	r.Header.Set("Connect-Protocol-Version", "1")
	w := httptest.NewRecorder()
	p.ServeHTTP(w, r)
	var out aliquotv1.CheckResponse
	if err := proto.Unmarshal(w.Body.Bytes(), &out); err != nil || w.Code != 200 || !out.GetAllowed() {
		t.Errorf("%d, %v, %v", w.Code, &out, err)
	}
	large := bytes.Repeat([]byte("x"), compressFrom)
	r.Header.Set("Accept-Encoding", "gzip")
	for range 2 { // the second one by what the first one left
		w = httptest.NewRecorder()
		p.write(w, r, large)
		z, err := gzip.NewReader(w.Body)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := io.ReadAll(z); err != nil || !bytes.Equal(got, large) {
			t.Errorf("%d bytes, %v", len(got), err)
		}
	}
}

// TestPlainCallThatPanics is answered.
func TestPlainCallThatPanics(t *testing.T) {
	s := &Service{} // whose parts are not there
	var next http.Handler
	p := newPlainCalls(s, next)
	if err := p.decide(t.Context(), &rawCall{}); err == nil || !strings.Contains(err.Error(), background.ErrPanic.Error()) {
		t.Error(err)
	}
}
