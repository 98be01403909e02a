package load

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
)

const (
	// readBuffer holds any frame of HTTP/2 at its default size, and most answers.
	readBuffer = 64 << 10
	// maxAnswer bounds what a server can make the generator hold.
	maxAnswer = 64 << 20
	// maxExample is how much of an error's answer is shown.
	maxExample = 200
)

// http1 is a connection of HTTP/1.1, with one call at a time.
type http1 struct {
	*lane
	keys
	conn   net.Conn
	in     *bufio.Reader
	out    []byte
	answer []byte
}

// serveHTTP1 makes one call after the other until the run is over or the connection
// breaks.
func (l *lane) serveHTTP1(_ context.Context, conn net.Conn) error {
	h := &http1{lane: l, keys: l.newKeys(), conn: conn, in: bufio.NewReaderSize(conn, readBuffer)}
	pace, err := newPace(l.run)
	if err != nil {
		return err
	}
	defer pace.close()
	for {
		due, ok := pace.next(&l.late)
		if !ok {
			return nil
		}
		sent := l.now()
		status, err := h.call()
		switch {
		case err != nil:
			l.failed(1, err)
			return err
		case l.config.Protocol == HTTP && (status == http.StatusOK || status == http.StatusTooManyRequests):
			if l.timed(due, sent) {
				l.calls++
				l.decided(status == http.StatusOK)
			}
		case status == http.StatusOK:
			l.answered(due, sent, h.answer)
		default:
			l.failed(1, &answerError{status: "http " + strconv.Itoa(status), message: string(h.answer[:min(len(h.answer), maxExample)])})
		}
	}
}

// call sends the next request and reads its answer.
func (h *http1) call() (status int, err error) {
	h.out = h.mold.pour(h.out[:0], &h.keys)
	if _, err := h.conn.Write(h.out); err != nil {
		return 0, err
	}
	return h.read()
}

// read reads one answer into h.answer.
func (h *http1) read() (status int, err error) {
	line, err := h.in.ReadSlice('\n')
	if err != nil {
		return 0, err
	}
	if len(line) < len("HTTP/1.1 200") || !bytes.HasPrefix(line, []byte("HTTP/1.1 ")) {
		return 0, errAnswer
	}
	if status, err = strconv.Atoi(string(line[9:12])); err != nil {
		return 0, errAnswer
	}
	length, chunked, err := h.readHeader()
	switch {
	case err != nil:
		return 0, err
	case chunked:
		return status, h.readChunks()
	case length > maxAnswer:
		return 0, errAnswer
	}
	h.answer = h.answer[:0]
	return status, h.readBody(length)
}

// readHeader reads the lines up to the empty one. An answer whose length is not told has
// no body.
func (h *http1) readHeader() (length int, chunked bool, err error) {
	for {
		line, err := h.in.ReadSlice('\n')
		if err != nil {
			return 0, false, err
		}
		name, value, found := bytes.Cut(bytes.TrimRight(line, "\r\n"), []byte(":"))
		if !found {
			return length, chunked, nil
		}
		switch {
		case bytes.EqualFold(name, []byte("content-length")):
			if length, err = strconv.Atoi(string(bytes.TrimSpace(value))); err != nil || length < 0 {
				return 0, false, errAnswer
			}
		case bytes.EqualFold(name, []byte("transfer-encoding")):
			chunked = true
		}
	}
}

func (h *http1) readBody(n int) error {
	from := len(h.answer)
	if cap(h.answer) < from+n {
		h.answer = append(make([]byte, 0, 2*(from+n)), h.answer...)
	}
	h.answer = h.answer[:from+n]
	_, err := io.ReadFull(h.in, h.answer[from:])
	return err
}

func (h *http1) readChunks() error {
	h.answer = h.answer[:0]
	for {
		line, err := h.in.ReadSlice('\n')
		if err != nil {
			return err
		}
		n, err := strconv.ParseUint(string(bytes.TrimSpace(line)), 16, 31)
		if err != nil || len(h.answer)+int(n) > maxAnswer {
			return fmt.Errorf("%w: a chunk of %q bytes", errAnswer, line)
		}
		if err := h.readBody(int(n)); err != nil {
			return err
		}
		if _, err := h.in.Discard(len("\r\n")); err != nil || n == 0 {
			return err
		}
	}
}
