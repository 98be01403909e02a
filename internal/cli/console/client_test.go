package console

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http/httptest"
	"strings"
	"syscall"
	"testing"
	"time"

	"connectrpc.com/connect"

	"aliquot/proto/aliquot/v1"
	"aliquot/proto/aliquot/v1/aliquotv1connect"
)

// TestThePortForGRPCIsNamed: the error of a call to a port that speaks HTTP/2 alone says which port to
// ask, and shows none of its bytes.
func TestThePortForGRPCIsNamed(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = bufio.NewReader(c).ReadString('\n')                     // an answer before the request would be another error
			_, _ = c.Write([]byte("\x00\x00\x12\x04\x00\x00\x00\x00\x00")) // the begin of a SETTINGS frame
			_ = c.Close()
		}
	}()
	g := &Globals{addr: l.Addr().String()}
	_, err = g.Limiter().Check(t.Context(), &aliquotv1.CheckRequest{})
	err = g.Explain(err, "a regional daemon", g.addr)
	if err == nil || !strings.Contains(err.Error(), "give --addr the port of --listen") || strings.Contains(err.Error(), "x00") {
		t.Error(err)
	}
}

// A deadline that a coordinator tells keeps its text, which says what became of the change. One that nothing
// answered may have been made, unless there was no connection.
func TestWhatBecameOfAChange(t *testing.T) {
	g := &Globals{addr: "here:7400", Timeout: time.Second}
	told := httptest.NewServer(connect.NewUnaryHandlerSimple(aliquotv1connect.ClusterServiceSetTimingProcedure,
		func(context.Context, *aliquotv1.SetTimingRequest) (*aliquotv1.SetTimingResponse, error) {
			return nil, connect.NewError(connect.CodeDeadlineExceeded, errors.New("the command may or may not have been applied"))
		}))
	defer told.Close()
	client := aliquotv1connect.NewClusterServiceClient(told.Client(), told.URL)
	_, answered := client.SetTiming(t.Context(), &aliquotv1.SetTimingRequest{})
	for name, c := range map[string]struct {
		err       error
		says      string
		mayBeMade bool
	}{
		"answered":      {answered, "the command may or may not have been applied (deadline_exceeded from a coordinator at here:7400)", false},
		"no answer":     {connect.NewError(connect.CodeDeadlineExceeded, context.DeadlineExceeded), "no answer within 1s", true},
		"broken off":    {connect.NewError(connect.CodeUnavailable, io.ErrUnexpectedEOF), "unexpected EOF", true},
		"not connected": {connect.NewError(connect.CodeUnavailable, &net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}), "connection refused", false},
		"a bad address": {connect.NewError(connect.CodeDeadlineExceeded, &net.OpError{Op: "dial", Err: context.DeadlineExceeded}), "no answer within 1s", false},
	} {
		got := g.ExplainChange(c.err, "aliquot region list").Error()
		if !strings.Contains(got, c.says) || strings.Contains(got, "may have been made all the same: see 'aliquot region list'") != c.mayBeMade {
			t.Errorf("%s: %s", name, got)
		}
	}
}
