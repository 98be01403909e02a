package attack

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	_ "aliquot/proto/aliquot/v1" // registers the services
)

// methods are the paths of all methods of the services, those of the regional daemon or those of the coordinators.
func methods(regional bool) (paths []string) {
	protoregistry.GlobalFiles.RangeFilesByPackage("aliquot.v1", func(f protoreflect.FileDescriptor) bool {
		for i := range f.Services().Len() {
			s := f.Services().Get(i)
			if (s.Name() == "LimiterService") != regional {
				continue
			}
			for k := range s.Methods().Len() {
				paths = append(paths, fmt.Sprintf("/%s/%s", s.FullName(), s.Methods().Get(k).Name()))
			}
		}
		return true
	})
	return append(paths, "/grpc.health.v1.Health/Check", "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo")
}

// everyMethod sends 32 MiB in gzip and, in the long form, 9 MiB plain to each method by each protocol, all methods at once,
// and to the ops pages. The short form sends plain bodies by one protocol. No answer is an internal error.
func (p *peers) everyMethod(t *testing.T) string {
	packed, plain := packed("", "\x00", 32<<20), make([]byte, 9<<20)
	ops := []string{"/metrics", "/healthz", "/readyz", "/hotkeys", "/held", "/debug/pprof/heap"}
	answers, calls := map[string]int{}, 0
	for _, port := range []struct {
		at    string
		paths []string
		kinds []string
	}{
		{p.at, append(methods(true), "/check"), []string{"application/proto", "application/json", "application/grpc-web+proto"}},
		{p.at, methods(true), []string{"application/grpc", "application/grpc+json"}},
		{p.grpc, methods(true), []string{"application/grpc"}},
		{p.coordinatorAt, append(methods(false), "/v1/rules"), []string{"application/proto", "application/json", "application/grpc-web+proto"}},
		{p.coordinatorAt, methods(false), []string{"application/grpc"}},
		{p.ops, ops, []string{"application/json"}},
		{p.coordinatorOps, ops, []string{"application/json"}},
	} {
		for _, kind := range port.kinds {
			for _, body := range []struct {
				encoding string
				data     []byte
			}{{"gzip", packed}, {"", plain}} {
				if !*long && body.encoding == "" && kind != "application/proto" {
					continue // a body that is refused takes seconds to be sent
				}
				for range scaled(1, 12) {
					for answer, n := range postAll(t, port.at, kind, body.encoding, body.data, port.paths) {
						answers[answer] += n
						calls += n
						if strings.HasPrefix(answer, "500") || strings.HasPrefix(answer, "502") || strings.HasSuffix(answer, "grpc 13") {
							t.Errorf("%s, %s %d bytes to %s: %s", kind, body.encoding, len(body.data), port.at, answer)
						}
					}
				}
			}
		}
	}
	return fmt.Sprintf("%d calls: %v", calls, slices.Sorted(maps.Keys(answers)))
}

// postAll posts a body to all paths at once, by gRPC over HTTP/2, and counts the answers by their status.
func postAll(t *testing.T, at, kind, encoding string, body []byte, paths []string) map[string]int {
	t.Helper()
	transport := &http.Transport{}
	if strings.HasPrefix(kind, "application/grpc") {
		frame := make([]byte, 5, 5+len(body))
		binary.BigEndian.PutUint32(frame[1:], uint32(len(body)))
		if encoding != "" {
			frame[0] = 1
		}
		body = append(frame, body...)
		if !strings.HasPrefix(kind, "application/grpc-web") {
			transport.Protocols = new(http.Protocols)
			transport.Protocols.SetUnencryptedHTTP2(true)
		}
	}
	client := &http.Client{Timeout: 5 * time.Minute, Transport: transport}
	defer client.CloseIdleConnections()
	var mu sync.Mutex
	answers := map[string]int{}
	var all sync.WaitGroup
	for _, path := range paths {
		all.Go(func() {
			r, err := http.NewRequest(http.MethodPost, "http://"+at+path, bytes.NewReader(body))
			if err != nil {
				t.Error(err)
				return
			}
			r.Header.Set("Content-Type", kind)
			r.Header.Set("Te", "trailers")
			if encoding != "" {
				r.Header.Set("Content-Encoding", encoding)
				r.Header.Set("Grpc-Encoding", encoding)
			}
			answer := "refused while it was sent"
			if out, err := client.Do(r); err == nil {
				_, _ = io.Copy(io.Discard, out.Body)
				out.Body.Close()
				answer = fmt.Sprint(out.StatusCode)
				if code := out.Header.Get("Grpc-Status") + out.Trailer.Get("Grpc-Status"); code != "" {
					answer += " grpc " + code
				}
			}
			mu.Lock()
			defer mu.Unlock()
			answers[answer]++
		})
	}
	all.Wait()
	return answers
}
