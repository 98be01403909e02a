package load

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"net"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

const (
	frameHead = 9
	// maxFrame is the payload that a peer takes unless it says otherwise.
	maxFrame = 16 << 10
	// defaultWindow of a connection and of each stream, until the peer says otherwise.
	defaultWindow = 64<<10 - 1
	// ownWindow is what the server may send ahead on a stream and, when half of it is
	// used up again, on the connection: never the limit.
	ownWindow = math.MaxInt32 / 2
	// maxHeaders bounds a block of headers that comes in parts.
	maxHeaders = 1 << 20
)

var errGoAway = errors.New("the server ends the connection")

// stream is one call's place on a connection, used for one call after the other.
type stream struct {
	id      uint32
	window  int64  // what the server takes of it now
	unsent  []byte // of request
	request []byte
	answer  []byte
	// open: more is sent on it after what is unsent. Only then it lasts long enough that
	// what was received has to be given back to its window.
	open       bool
	unreported int64
}

// http2Conn is the frames of one connection. What it sends gathers in out until flush.
// One goroutine at a time may call it.
type http2Conn struct {
	conn net.Conn
	in   *bufio.Reader
	out  []byte

	headers      []byte // of every request but the first; the server's table has them all
	firstHeaders []byte
	decoder      *hpack.Decoder
	field        func(hpack.HeaderField)
	block        []byte // of headers that go on in the next frame
	blockStream  uint32
	blockEnds    bool // the stream ends with them

	nextID     uint32
	window     int64 // of the connection
	newStream  int64 // window of a new stream
	most       int   // streams at once that the server takes
	unreported int64 // bytes received since the last window update
	streams    map[uint32]*stream
	waiting    []*stream // with something unsent, in order
}

// newHTTP2Conn begins a connection on which every request has the same headers.
func newHTTP2Conn(conn net.Conn, headers []hpack.HeaderField, field func(hpack.HeaderField)) *http2Conn {
	c := &http2Conn{
		conn: conn, in: bufio.NewReaderSize(conn, readBuffer), nextID: 1, window: defaultWindow, newStream: defaultWindow,
		most: math.MaxInt32, streams: map[uint32]*stream{}, field: field,
	}
	c.decoder = hpack.NewDecoder(4096, func(f hpack.HeaderField) { c.field(f) })
	var block bytes.Buffer
	encoder := hpack.NewEncoder(&block)
	encode := func() []byte {
		block.Reset()
		for _, h := range headers {
			_ = encoder.WriteField(h) // into memory
		}
		return bytes.Clone(block.Bytes())
	}
	c.firstHeaders, c.headers = encode(), encode()
	c.out = append(c.out, http2.ClientPreface...)
	c.frame(http2.FrameSettings, 0, 0, setting(setting(nil, http2.SettingInitialWindowSize, ownWindow), http2.SettingEnablePush, 0))
	c.frame(http2.FrameWindowUpdate, 0, 0, binary.BigEndian.AppendUint32(nil, ownWindow))
	return c
}

func setting(to []byte, id http2.SettingID, value uint32) []byte {
	return binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint16(to, uint16(id)), value)
}

// frame adds one to what will be sent.
func (c *http2Conn) frame(kind http2.FrameType, flags http2.Flags, id uint32, payload []byte) {
	n := len(payload)
	c.out = append(c.out, byte(n>>16), byte(n>>8), byte(n), byte(kind), byte(flags))
	c.out = binary.BigEndian.AppendUint32(c.out, id)
	c.out = append(c.out, payload...)
}

// flush sends what has gathered.
func (c *http2Conn) flush() error {
	_, err := c.conn.Write(c.out)
	c.out = c.out[:0]
	return err
}

// start begins a call with the stream's request. The stream must not be under way.
func (c *http2Conn) start(s *stream) {
	s.id, s.window, s.unsent, s.answer = c.nextID, c.newStream, s.request, s.answer[:0]
	block := c.headers
	if c.nextID == 1 {
		block = c.firstHeaders
	}
	c.nextID += 2
	c.streams[s.id] = s
	c.frame(http2.FrameHeaders, http2.FlagHeadersEndHeaders, s.id, block)
	if c.send(s); len(s.unsent) > 0 {
		c.waiting = append(c.waiting, s)
	}
}

// send adds as much of a stream's request as the windows have room for.
func (c *http2Conn) send(s *stream) {
	for len(s.unsent) > 0 {
		n := int(min(int64(len(s.unsent)), maxFrame, s.window, c.window))
		if n <= 0 {
			return
		}
		var flags http2.Flags
		if n == len(s.unsent) && !s.open {
			flags = http2.FlagDataEndStream
		}
		c.frame(http2.FrameData, flags, s.id, s.unsent[:n])
		s.unsent = s.unsent[n:]
		s.window -= int64(n)
		c.window -= int64(n)
	}
}

// more sends more on an open stream.
func (c *http2Conn) more(s *stream, p []byte) {
	waits := len(s.unsent) > 0
	s.unsent = append(s.unsent, p...)
	if waits {
		return
	}
	if c.send(s); len(s.unsent) > 0 {
		c.waiting = append(c.waiting, s)
	}
}

// sendWaiting goes on with requests that a window held up.
func (c *http2Conn) sendWaiting() {
	still := c.waiting[:0]
	for _, s := range c.waiting {
		if c.send(s); len(s.unsent) > 0 && c.streams[s.id] == s {
			still = append(still, s)
		}
	}
	c.waiting = still
}

// exhausted: a connection has no more numbers for new streams.
func (c *http2Conn) exhausted() bool { return c.nextID >= math.MaxInt32 }

// idle: reading would wait for the network.
func (c *http2Conn) idle() bool { return c.in.Buffered() == 0 }

// peek waits for a whole frame. It may be called while others send.
func (c *http2Conn) peek() (head, payload []byte, err error) {
	head, err = c.in.Peek(frameHead)
	if err != nil {
		return nil, nil, err
	}
	n := int(head[0])<<16 | int(head[1])<<8 | int(head[2])
	if n > maxFrame {
		return nil, nil, fmt.Errorf("%w: a frame of %d bytes", errAnswer, n)
	}
	all, err := c.in.Peek(frameHead + n)
	if err != nil {
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		return nil, nil, err
	}
	return all[:frameHead], all[frameHead:], nil
}

// take acts on the frame that peek returned, and returns the stream that it ended, if it
// did, with how.
func (c *http2Conn) take(head, payload []byte) (ended *stream, how, err error) {
	kind, flags := http2.FrameType(head[3]), http2.Flags(head[4])
	id := binary.BigEndian.Uint32(head[5:]) & math.MaxInt32
	switch kind {
	case http2.FrameData:
		ended = c.data(c.streams[id], flags, payload)
	case http2.FrameHeaders, http2.FrameContinuation:
		ended, err = c.header(kind, id, flags, payload)
	case http2.FrameRSTStream:
		ended, how = c.streams[id], &answerError{status: "reset", message: "the server reset the stream"}
	case http2.FrameSettings:
		err = c.settings(flags, payload)
	case http2.FramePing:
		if !flags.Has(http2.FlagPingAck) {
			c.frame(http2.FramePing, http2.FlagPingAck, 0, payload)
		}
	case http2.FrameWindowUpdate:
		if err = c.widen(id, payload); err == nil {
			c.sendWaiting()
		}
	case http2.FrameGoAway:
		err = fmt.Errorf("%w: %q", errGoAway, payload)
	}
	if ended != nil {
		delete(c.streams, ended.id)
	}
	_, discarded := c.in.Discard(len(head) + len(payload))
	return ended, how, errors.Join(err, discarded)
}

func (c *http2Conn) data(s *stream, flags http2.Flags, payload []byte) (ended *stream) {
	if c.unreported += int64(len(payload)); c.unreported > ownWindow/2 {
		c.frame(http2.FrameWindowUpdate, 0, 0, binary.BigEndian.AppendUint32(nil, uint32(c.unreported)))
		c.unreported = 0
	}
	if s == nil {
		return nil
	}
	if s.unreported += int64(len(payload)); s.open && s.unreported > ownWindow/2 {
		c.frame(http2.FrameWindowUpdate, 0, s.id, binary.BigEndian.AppendUint32(nil, uint32(s.unreported)))
		s.unreported = 0
	}
	s.answer = append(s.answer, unpadded(payload, flags, http2.FlagDataPadded, 0)...)
	if flags.Has(http2.FlagDataEndStream) {
		return s
	}
	return nil
}

// unpadded is a payload without its padding and without what stands before the rest.
func unpadded(payload []byte, flags, padded http2.Flags, before int) []byte {
	pad := 0
	if flags.Has(padded) && len(payload) > 0 {
		pad, payload = int(payload[0]), payload[1:]
	}
	return payload[min(before, len(payload)):max(len(payload)-pad, min(before, len(payload)))]
}

// header reads a block of headers when it is complete.
func (c *http2Conn) header(kind http2.FrameType, id uint32, flags http2.Flags, payload []byte) (ended *stream, err error) {
	if kind == http2.FrameHeaders {
		before := 0
		if flags.Has(http2.FlagHeadersPriority) {
			before = 5
		}
		payload = unpadded(payload, flags, http2.FlagHeadersPadded, before)
		c.block, c.blockStream, c.blockEnds = c.block[:0], id, flags.Has(http2.FlagHeadersEndStream)
	}
	if len(c.block)+len(payload) > maxHeaders {
		return nil, fmt.Errorf("%w: headers without end", errAnswer)
	}
	c.block = append(c.block, payload...)
	if !flags.Has(http2.FlagHeadersEndHeaders) {
		return nil, nil
	}
	if _, err := c.decoder.Write(c.block); err != nil {
		return nil, fmt.Errorf("%w: %w", errAnswer, err)
	}
	if err := c.decoder.Close(); err != nil {
		return nil, fmt.Errorf("%w: %w", errAnswer, err)
	}
	if c.blockEnds {
		return c.streams[c.blockStream], nil
	}
	return nil, nil
}

func (c *http2Conn) settings(flags http2.Flags, payload []byte) error {
	if flags.Has(http2.FlagSettingsAck) {
		return nil
	}
	for ; len(payload) >= 6; payload = payload[6:] {
		value := binary.BigEndian.Uint32(payload[2:])
		switch http2.SettingID(binary.BigEndian.Uint16(payload)) {
		case http2.SettingInitialWindowSize:
			for _, s := range c.streams {
				s.window += int64(value) - c.newStream
			}
			c.newStream = int64(value)
		case http2.SettingMaxConcurrentStreams:
			c.most = int(min(value, math.MaxInt32))
		}
	}
	c.frame(http2.FrameSettings, http2.FlagSettingsAck, 0, nil)
	c.sendWaiting()
	return nil
}

func (c *http2Conn) widen(id uint32, payload []byte) error {
	if len(payload) != 4 {
		return fmt.Errorf("%w: a window update of %d bytes", errAnswer, len(payload))
	}
	by := int64(binary.BigEndian.Uint32(payload) & math.MaxInt32)
	if id == 0 {
		c.window += by
	} else if s := c.streams[id]; s != nil {
		s.window += by
	}
	return nil
}
