package api

import (
	"bytes"
	"compress/gzip"
	"context"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"connectrpc.com/connect"

	"aliquot/internal/rpc"
	"aliquot/proto/aliquot/v1/aliquotv1connect"
)

const (
	// maxPlain bounds the message of a plain call. It is more than a check usually has, and little
	// enough to allocate before the message has come, on each stream of a connection.
	maxPlain = 4 << 10
	// maxTimeoutDigits is the maximum number of digits that Connect allows a timeout in
	// milliseconds.
	maxTimeoutDigits = 10
	plainType        = "application/proto"
	compression      = "gzip"
)

// plainCalls answers Check over Connect if nothing about the call is unusual, by the same rules as
// connect-go, whose handler allocates many objects for each call. All other calls go to next, which
// reads again what was read here. Safe for concurrent use.
type plainCalls struct {
	service *Service
	next    http.Handler
	errors  *connect.ErrorWriter
	zips    sync.Pool // *gzip.Writer: each takes 800 KiB
}

func newPlainCalls(s *Service, next http.Handler) *plainCalls {
	return &plainCalls{service: s, next: next, errors: connect.NewErrorWriter()}
}

// ServeHTTP answers one call.
func (p *plainCalls) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	timeout, plain := plainTimeout(r)
	if !plain {
		p.next.ServeHTTP(w, r)
		return
	}
	x := p.service.rawCalls.take(single)
	if rest := p.read(x, r); rest != nil {
		p.next.ServeHTTP(w, rpc.WithBody(r, rest))
		return
	}
	ctx := r.Context()
	if timeout >= 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, timeout)
		defer cancel()
	}
	h := w.Header()
	h["Content-Type"] = []string{plainType}
	h["Accept-Encoding"] = []string{compression}
	if err := p.decide(ctx, x); err != nil {
		_ = p.errors.Write(w, r, err) // the error means that the client has gone
		return
	}
	p.write(w, r, x.reply)
	x.done()
}

// plainTimeout returns how long a plain call may take, negative for no limit. It returns false if
// the call is not plain.
func plainTimeout(r *http.Request) (timeout time.Duration, plain bool) {
	h := r.Header
	if r.Method != http.MethodPost || r.ContentLength <= 0 || r.ContentLength > maxPlain || first(h, "Content-Type") != plainType ||
		first(h, "Content-Encoding") != "" {
		return 0, false
	}
	if version := first(h, "Connect-Protocol-Version"); version != "" && version != "1" {
		return 0, false
	}
	text := first(h, "Connect-Timeout-Ms")
	if text == "" {
		return -1, true
	}
	ms, err := strconv.ParseInt(text, 10, 64)
	if err != nil || ms < 0 || len(text) > maxTimeoutDigits {
		return 0, false
	}
	return time.Duration(ms) * time.Millisecond, true
}

// first returns the first value of a header. The name must be in its canonical form.
func first(h http.Header, name string) string {
	if values := h[name]; len(values) > 0 {
		return values[0]
	}
	return ""
}

// read reads the message of a call, and checks that nothing follows it: over HTTP/2 a client whose
// stream is answered before its end is told that it was reset. If the message cannot be read, or
// only by the generated code, read returns the whole body as it came, for next.
func (p *plainCalls) read(x *rawCall, r *http.Request) (body io.ReadCloser) {
	told := int(r.ContentLength)
	x.message = slices.Grow(x.message[:0], told+1)[:told+1]
	n, err := io.ReadFull(r.Body, x.message)
	x.message = x.message[:n]
	whole := n == told && err == io.ErrUnexpectedEOF // there was not one more byte
	if whole && x.readFast() {
		return nil
	}
	var rest io.Reader = r.Body
	if !whole && err != nil {
		rest = failing{err}
	}
	return replayed{io.MultiReader(bytes.NewReader(x.message), rest), r.Body}
}

// replayed is a body of which a part was read before.
type replayed struct {
	io.Reader
	io.Closer
}

// failing fails every read.
type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }

// decide decides a call. Its error is an RPC error.
func (p *plainCalls) decide(ctx context.Context, x *rawCall) (err error) {
	defer func() {
		if cause := recover(); cause != nil {
			err = p.service.panics.Caught(aliquotv1connect.LimiterServiceCheckProcedure, cause)
		}
	}()
	if err := ctx.Err(); err != nil {
		return rpcCodes.Error(err)
	}
	return p.service.serve(ctx, x)
}

// write writes a response. It compresses a large response if the client accepts that.
func (p *plainCalls) write(w http.ResponseWriter, r *http.Request, reply []byte) {
	// An error means that the client has gone, so it is ignored.
	if len(reply) < compressFrom || !accepts(first(r.Header, "Accept-Encoding"), compression) {
		_, _ = w.Write(reply)
		return
	}
	w.Header()["Content-Encoding"] = []string{compression}
	z, ok := p.zips.Get().(*gzip.Writer)
	if !ok {
		z = gzip.NewWriter(nil)
	}
	z.Reset(w)
	_, _ = z.Write(reply)
	_ = z.Close()
	z.Reset(nil) // to release the connection
	p.zips.Put(z)
}

// accepts reports whether a list of encodings contains one.
func accepts(list, encoding string) bool {
	for name := range strings.FieldsFuncSeq(list, func(c rune) bool { return c == ',' || c == ' ' }) {
		if name == encoding {
			return true
		}
	}
	return false
}
