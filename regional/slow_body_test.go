package regional

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"aliquot/proto/aliquot/v1/aliquotv1connect"
)

// TestASlowBodyIsToldOf by what was wrong with it, and not by where its connection leads.
func TestASlowBodyIsToldOf(t *testing.T) {
	inNetwork(t, func(t *testing.T) {
		d, _ := startLive(t, testConfig(newLeader(t, oneRule).address()))
		l := networkOf(t).listen()
		server := &http.Server{Handler: d.service.HTTP(), ReadTimeout: time.Second}
		go server.Serve(l)
		defer server.Close()
		for _, procedure := range []string{
			aliquotv1connect.LimiterServiceCheckProcedure, aliquotv1connect.LimiterServiceCheckBatchProcedure,
			aliquotv1connect.LimiterServiceReserveProcedure,
		} {
			for _, contentType := range []string{"application/proto", "application/json"} {
				conn, err := networkOf(t).dial(t.Context(), "", l.addr.String())
				if err != nil {
					t.Fatal(err)
				}
				fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: us\r\nContent-Type: %s\r\nContent-Length: 100\r\n\r\n{", procedure, contentType)
				out, err := http.ReadResponse(bufio.NewReader(conn), nil)
				if err != nil {
					t.Fatal(err)
				}
				body, err := io.ReadAll(out.Body)
				out.Body.Close()
				conn.Close()
				if text := string(body); err != nil || out.StatusCode != http.StatusGatewayTimeout || !strings.Contains(text, "body did not come in time") || strings.Contains(text, "127.0.0.1") {
					t.Errorf("%s of %s: %s %s, %v", procedure, contentType, out.Status, text, err)
				}
			}
		}
	})
}

// TestAMalformedBodyIsTheClientsFault: chunks without a length, and a body that is cut off, are 400 and not 500.
func TestAMalformedBodyIsTheClientsFault(t *testing.T) {
	d, _ := startLive(t, testConfig(newLeader(t, oneRule).address()))
	for _, procedure := range []string{
		aliquotv1connect.LimiterServiceCheckProcedure, aliquotv1connect.LimiterServiceCheckBatchProcedure, aliquotv1connect.LimiterServiceReserveProcedure,
	} {
		for _, contentType := range []string{"application/proto", "application/json"} {
			for _, body := range []string{"zz\r\n{}\r\n0\r\n\r\n", "-1\r\n{}\r\n", "ffffffffffffffffff\r\n{}", "2\r\n{}garbage"} {
				conn, err := net.Dial("tcp", d.Addr())
				if err != nil {
					t.Fatal(err)
				}
				fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: us\r\nContent-Type: %s\r\nTransfer-Encoding: chunked\r\n\r\n%s", procedure, contentType, body)
				_ = conn.(*net.TCPConn).CloseWrite()
				out, err := http.ReadResponse(bufio.NewReader(conn), nil)
				if err != nil {
					t.Fatal(err)
				}
				if out.StatusCode != http.StatusBadRequest {
					text, _ := io.ReadAll(out.Body)
					t.Errorf("%s, %s of %q: %s %s", procedure, contentType, body, out.Status, text)
				}
				conn.Close()
			}
		}
	}
}
