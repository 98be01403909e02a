package coordinator

import (
	"encoding/json"
	"errors"
	"net/http"

	"connectrpc.com/connect"
)

// problem is the body of an error, as RFC 9457 defines it. Its type is about:blank: the status says
// what kind it is, the detail says what to do.
type problem struct {
	Type   string `json:"type"`
	Title  string `json:"title"`
	Status int    `json:"status"`
	Detail string `json:"detail"`
}

// statuses are the HTTP statuses of the codes of RPCs; any other code is 500.
var statuses = map[connect.Code]int{
	connect.CodeInvalidArgument:    http.StatusBadRequest,
	connect.CodeNotFound:           http.StatusNotFound,
	connect.CodeAlreadyExists:      http.StatusConflict,
	connect.CodeFailedPrecondition: http.StatusConflict,
	connect.CodeAborted:            http.StatusConflict,
	connect.CodeResourceExhausted:  http.StatusTooManyRequests,
	connect.CodeUnavailable:        http.StatusServiceUnavailable,
	connect.CodeDeadlineExceeded:   http.StatusGatewayTimeout,
	connect.CodeCanceled:           http.StatusGatewayTimeout,
}

// serveProblem answers with the error of an RPC.
func serveProblem(w http.ResponseWriter, err error) {
	status, known := statuses[connect.CodeOf(err)]
	if !known {
		status = http.StatusInternalServerError
	}
	serveStatus(w, status, problemDetail(err))
}

// problemDetail returns the message of an RPC's error without its code.
func problemDetail(err error) string {
	if wire, ok := errors.AsType[*connect.Error](err); ok {
		return wire.Message()
	}
	return err.Error()
}

// serveStatus answers with a status and a problem body.
func serveStatus(w http.ResponseWriter, status int, detail string) {
	body, err := json.Marshal(problem{Type: "about:blank", Title: http.StatusText(status), Status: status, Detail: detail})
	if err != nil {
		status, body = http.StatusInternalServerError, nil
	}
	w.Header().Set("Content-Type", "application/problem+json")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(status)
	_, _ = w.Write(body) // an error means that the caller has left
}
