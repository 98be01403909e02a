package regional

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"aliquot/proto/aliquot/v1/aliquotv1connect"
)

// TestASlowBodyIsToldOf by what was wrong with it, and not by where its connection leads.
func TestASlowBodyIsToldOf(t *testing.T) {
	d, _ := startLive(t, testConfig(newLeader(t, oneRule).address()))
	server := httptest.NewUnstartedServer(connectHandler(d.service, "us"))
	server.Config.ReadTimeout = time.Second
	server.Start()
	defer server.Close()
	var all sync.WaitGroup
	defer all.Wait()
	for _, procedure := range []string{
		aliquotv1connect.LimiterServiceCheckProcedure, aliquotv1connect.LimiterServiceCheckBatchProcedure,
		aliquotv1connect.LimiterServiceReserveProcedure,
	} {
		for _, contentType := range []string{plainType, "application/json"} {
			all.Go(func() {
				conn, err := net.Dial("tcp", server.Listener.Addr().String())
				if err != nil {
					t.Error(err)
					return
				}
				defer conn.Close()
				fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: us\r\nContent-Type: %s\r\nContent-Length: 100\r\n\r\n{", procedure, contentType)
				out, err := http.ReadResponse(bufio.NewReader(conn), nil)
				if err != nil {
					t.Error(err)
					return
				}
				body, err := io.ReadAll(out.Body)
				out.Body.Close()
				if text := string(body); err != nil || out.StatusCode != http.StatusGatewayTimeout || !strings.Contains(text, "body did not come in time") || strings.Contains(text, "127.0.0.1") {
					t.Errorf("%s of %s: %s %s, %v", procedure, contentType, out.Status, text, err)
				}
			})
		}
	}
}
