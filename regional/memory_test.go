package regional

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"io"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/status"

	aliquotv1 "aliquot/proto/aliquot/v1"
)

// packedZeros are so many bytes of zeros, compressed.
func packedZeros(t *testing.T, n int64) []byte {
	t.Helper()
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	if _, err := io.CopyN(w, zeros{}, n); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

// allocated is how much this process allocates meanwhile.
func allocated(do func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	do()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// TestAMessageThatGrowsIsNotUnpacked: 128 MiB in a message of 128 KiB, to what takes a name of a
// service, cost the daemon next to nothing.
func TestAMessageThatGrowsIsNotUnpacked(t *testing.T) {
	const unpacked, most = 128 << 20, 16 << 20
	d, _ := start(t, testConfig("127.0.0.1:1"))
	packed := packedZeros(t, unpacked)
	enveloped := binary.BigEndian.AppendUint32([]byte{1}, uint32(len(packed)))
	enveloped = append(enveloped, packed...)
	var protocols http.Protocols
	protocols.SetUnencryptedHTTP2(true)
	client := &http.Client{Transport: &http.Transport{Protocols: &protocols}}
	defer client.CloseIdleConnections()
	for path, m := range map[string]struct {
		header http.Header
		body   []byte
	}{
		"/grpc.health.v1.Health/Check": {http.Header{"Content-Type": {"application/proto"}, "Content-Encoding": {"gzip"}}, packed},
		"/grpc.reflection.v1.ServerReflection/ServerReflectionInfo": {
			http.Header{"Content-Type": {"application/grpc"}, "Grpc-Encoding": {"gzip"}, "Te": {"trailers"}}, enveloped},
		"/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo": {
			http.Header{"Content-Type": {"application/grpc"}, "Grpc-Encoding": {"gzip"}, "Te": {"trailers"}}, enveloped},
	} {
		n := allocated(func() {
			request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+d.Addr()+path, bytes.NewReader(m.body))
			if err != nil {
				t.Fatal(err)
			}
			request.Header = m.header
			answer, err := client.Do(request)
			if err != nil {
				t.Fatal(err)
			}
			io.Copy(io.Discard, answer.Body)
			answer.Body.Close()
			t.Logf("%s: %s, grpc-status %s", path, answer.Status, answer.Trailer.Get("Grpc-Status")+answer.Header.Get("Grpc-Status"))
		})
		t.Logf("%s: %d MiB allocated", path, n>>20)
		if n > most {
			t.Errorf("%s: %d MiB allocated for a message of %d KiB; at most %d", path, n>>20, len(m.body)>>10, most>>20)
		}
	}
}

// TestNothingUnpacksCallsOverGRPC: grpc-go would unpack any number of them at once, each to 4 MiB. Without a compressor it
// refuses them.
func TestNothingUnpacksCallsOverGRPC(t *testing.T) {
	for _, name := range []string{"gzip", "deflate", "snappy", "zstd"} {
		if encoding.GetCompressor(name) != nil {
			t.Errorf("a package of the daemon registers %s", name)
		}
	}
}

// TestLargeMessagesOverGRPCTakeTurns: of forty large batches at once some wait, none is unreadable, and nothing of their
// room stays taken.
func TestLargeMessagesOverGRPCTakeTurns(t *testing.T) {
	d, _ := start(t, testConfig("127.0.0.1:1"))
	client := aliquotv1.NewLimiterServiceClient(dialGRPC(t, d))
	large := &aliquotv1.CheckBatchRequest{}
	for range 900 {
		large.Requests = append(large.Requests, &aliquotv1.CheckRequest{Attributes: map[string]string{"api_key": strings.Repeat("k", 4000)}})
	}
	for range 3 {
		var all sync.WaitGroup
		for range 40 {
			all.Go(func() {
				if _, err := client.CheckBatch(t.Context(), large); err != nil && status.Code(err) != codes.ResourceExhausted && status.Code(err) != codes.Unavailable {
					t.Error(err)
				}
			})
		}
		all.Wait()
	}
	if _, err := client.CheckBatch(t.Context(), large); err != nil {
		t.Errorf("one by itself: %v", err)
	}
}
