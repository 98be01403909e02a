package rpc

import (
	"bytes"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	aliquotv1 "aliquot/proto/aliquot/v1"
)

// TestPartsAreCountedBeforeTheyAreRead: nested ones too, and not the fields that are no messages.
func TestPartsAreCountedBeforeTheyAreRead(t *testing.T) {
	key := &aliquotv1.HeldKey{Key: &aliquotv1.KeyId{Rule: 1}, Gen: &aliquotv1.Generation{Epoch: 1}, Share: &aliquotv1.Share{Rate: 1}, Limit: &aliquotv1.KeyLimit{CapacityMicro: 1}}
	in := &aliquotv1.HelloRequest{Region: "us", Held: []*aliquotv1.HeldKey{key, key}}
	data, err := proto.Marshal(in)
	if err != nil {
		t.Fatal(err)
	}
	var out aliquotv1.HelloRequest
	if err := (countedProto{max: 10}).Unmarshal(data, &out); err != nil || !proto.Equal(in, &out) {
		t.Errorf("ten parts of ten: %v, %v", err, &out)
	}
	if err := (countedProto{max: 9}).Unmarshal(data, &out); !errors.Is(err, errTooManyParts) {
		t.Errorf("ten parts of nine: %v", err)
	}
	if err := (countedProto{max: 9}).Unmarshal(data[:len(data)-1], &out); err == nil {
		t.Error("a message that is cut off was read")
	}
	if err := (countedJSON{max: 9}).Unmarshal([]byte(`{"held":[{},{}]}`), &out); err != nil || len(out.GetHeld()) != 2 {
		t.Errorf("%v, %v", err, &out)
	}
	text := `{"region":"` + strings.Repeat(`{\\,\",`, 20) + `","held":[{}]}`
	if err := (countedJSON{max: 9}).Unmarshal([]byte(text), &out); err != nil || len(out.GetHeld()) != 1 {
		t.Errorf("signs in a text are counted as parts: %v", err)
	}
	many := `{"held":[` + strings.Repeat("{},", 20) + `{}]}`
	if err := (countedJSON{max: 9}).Unmarshal([]byte(many), &out); !errors.Is(err, errTooManyParts) {
		t.Errorf("%v", err)
	}
}

// TestCompressedRequestsAreRefused by name, and plain ones pass.
func TestCompressedRequestsAreRefused(t *testing.T) {
	passed := 0
	h := Uncompressed(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { passed++ }))
	for _, c := range []struct {
		contentType, name, value string
		want                     string // in the body or the trailers; empty: it passes
	}{
		{"application/proto", "Content-Encoding", "", ""},
		{"application/proto", "Content-Encoding", "identity", ""},
		{"application/proto", "Content-Encoding", "gzip", "unimplemented"},
		{"application/json", "Content-Encoding", "br", "unimplemented"},
		{"application/grpc", "Grpc-Encoding", "gzip", "12"},
	} {
		r := httptest.NewRequest(http.MethodPost, "/aliquot.v1.LeaseService/Hello", bytes.NewReader(nil))
		r.Header.Set("Content-Type", c.contentType)
		r.Header.Set(c.name, c.value)
		w := httptest.NewRecorder()
		before := passed
		h.ServeHTTP(w, r)
		answer := w.Result()
		if got := w.Body.String() + answer.Header.Get("Grpc-Status") + answer.Trailer.Get("Grpc-Status"); (passed > before) != (c.want == "") || !strings.Contains(got, c.want) {
			t.Errorf("%+v: %d %q", c, answer.StatusCode, got)
		}
	}
}
