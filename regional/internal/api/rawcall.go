package api

import (
	"context"
	"fmt"
	"sync"

	"aliquot/regional/internal/explain"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"

	"aliquot/internal/checkwire"
	aliquotv1 "aliquot/proto/aliquot/v1"
	"aliquot/regional/internal/charge"
)

// kind is the method of a call.
type kind uint8

const (
	single   kind = iota // Check
	batch                // CheckBatch
	streamed             // a message of CheckStream
)

// rawCall is one call as bytes: its requests, whose texts are parts of the message, and its
// answers. It keeps its buffers for the next call. It belongs to one call at a time.
type rawCall struct {
	pool *rawCalls // where it goes when it is done; nil: nowhere
	kind kind
	// message is the request as it came. The requests point into it.
	message []byte
	// came is the size of a message that is not kept, which is one in JSON.
	came     int
	requests checkwire.Requests
	ids      []uint64 // of the requests of a stream
	valid    []charge.Request
	invalid  []invalid
	answer   checkwire.Answer
	// decided reports that at least one request of a batch was decided, and admitted that one was admitted.
	decided, admitted bool
	// reply is the response. It holds results results.
	reply   []byte
	results int
	// unreadable is why the message cannot be read. refused is why a readable message is not
	// answered.
	unreadable, refused error
	weight
}

// invalid is a request of a batch that was not decided.
type invalid struct {
	at  int
	why error
}

// maxKept bounds the buffers that one call keeps for the next one, so that a few large batches
// do not hold memory for good.
const maxKept = 1 << 20

// rawCalls keeps each rawCall for the next call. Safe for concurrent use.
type rawCalls struct{ kept sync.Pool }

func (p *rawCalls) take(of kind) *rawCall {
	x, ok := p.kept.Get().(*rawCall)
	if !ok {
		x = &rawCall{pool: p}
	}
	x.kind = of
	return x
}

// done ends the use of a rawCall that was answered. It forgets the requests at once, because they
// point into a message that the next call overwrites. One whose call failed must not be
// used again, because the code that got it may still refer to it.
func (x *rawCall) done() {
	if x.pool == nil || cap(x.message)+cap(x.reply)+x.requests.Room() > maxKept {
		return
	}
	x.requests.Reset()
	clear(x.valid)
	clear(x.invalid)
	x.answer.Reset()
	x.message, x.valid, x.invalid, x.reply = x.message[:0], x.valid[:0], x.invalid[:0], x.reply[:0]
	x.ids, x.came, x.results, x.unreadable, x.refused = x.ids[:0], 0, 0, nil, nil
	x.pool.kept.Put(x)
}

// read reads the message. An unusual or invalid message goes to the generated code, whose error is
// returned.
func (x *rawCall) read() error {
	if x.readFast() {
		return nil
	}
	x.requests.Reset()
	x.ids = x.ids[:0]
	if x.kind != single && !x.holdsAtMost(checkwire.Requested(x.message)) {
		return nil
	}
	in := x.asked()
	if err := proto.Unmarshal(x.message, in); err != nil {
		return err
	}
	x.take(in)
	return nil
}

// readFast returns false if the generated code has to read the message.
func (x *rawCall) readFast() bool {
	switch x.kind {
	case batch:
		return checkwire.ReadBatch(x.message, x.next) && len(x.requests.All) > 0
	case streamed:
		return checkwire.ReadStreamed(x.message, x.nextStreamed) && len(x.requests.All) > 0
	default:
		return x.requests.Read(x.message)
	}
}

// next reads one request of a batch. It returns false if the batch is too large, or if the generated
// code has to read the request.
func (x *rawCall) next(message []byte) bool {
	return len(x.requests.All) < maxBatch && x.requests.ReadAmong(message)
}

func (x *rawCall) nextStreamed(id uint64, message []byte) bool {
	x.ids = append(x.ids, id)
	return x.next(message)
}

// asked returns an empty message of the request's type.
func (x *rawCall) asked() proto.Message {
	switch x.kind {
	case batch:
		return new(aliquotv1.CheckBatchRequest)
	case streamed:
		return new(aliquotv1.CheckStreamRequest)
	default:
		return new(aliquotv1.CheckRequest)
	}
}

// answered returns an empty message of the response's type.
func (x *rawCall) answered() proto.Message {
	switch x.kind {
	case batch:
		return new(aliquotv1.CheckBatchResponse)
	case streamed:
		return new(aliquotv1.CheckStreamResponse)
	default:
		return new(aliquotv1.CheckResponse)
	}
}

// take adds the requests of a message.
func (x *rawCall) take(in proto.Message) {
	switch in := in.(type) {
	case *aliquotv1.CheckRequest:
		x.requests.All = append(x.requests.All, wireRequest(in))
	case *aliquotv1.CheckBatchRequest:
		if x.holds(len(in.GetRequests())) {
			for _, one := range in.GetRequests() {
				x.requests.All = append(x.requests.All, wireRequest(one))
			}
		}
	case *aliquotv1.CheckStreamRequest:
		if x.holds(len(in.GetRequests())) {
			for _, one := range in.GetRequests() {
				x.requests.All = append(x.requests.All, wireRequest(one.GetRequest()))
				x.ids = append(x.ids, one.GetId())
			}
		}
	}
}

// holdsAtMost refuses a batch that is too large before its requests become objects, which take up
// to sixty times the memory of their bytes.
func (x *rawCall) holdsAtMost(n int) bool { return n <= maxBatch || x.holds(n) }

// holds refuses a batch that is empty or too large.
func (x *rawCall) holds(n int) bool {
	if n < 1 || n > maxBatch {
		x.refused = fmt.Errorf("%w: a batch of %d requests; send 1 to %d", charge.ErrInvalid, n, maxBatch)
		return false
	}
	return true
}

// serve decides the requests that were read, and writes the reply. Its error is an RPC error.
func (s *Service) serve(ctx context.Context, x *rawCall) error {
	if x.refused != nil {
		return rpcCodes.Error(x.refused)
	}
	if x.kind != single {
		if err := s.checkBatch(ctx, x, x.result); err != nil {
			return err
		}
		s.answeredBatch(ctx, x)
		return nil
	}
	if err := s.check(ctx, x.requests.All[0], &x.answer); err != nil {
		return err
	}
	s.throttle.Answered(ctx, !explain.DeniedByRules(&x.answer))
	x.reply = x.answer.Append(x.reply)
	return nil
}

// result adds the next result of a batch to the reply.
func (x *rawCall) result(why error) {
	switch {
	case x.kind == streamed && why != nil:
		x.reply = checkwire.AppendStreamedError(x.reply, x.ids[x.results], why.Error(), uint32(connect.CodeOf(rpcCodes.Error(why))))
	case x.kind == streamed:
		x.reply = x.answer.AppendStreamed(x.reply, x.ids[x.results])
	case why != nil:
		x.reply = checkwire.AppendError(x.reply, why.Error())
	default:
		x.reply = x.answer.AppendResult(x.reply)
	}
	x.results++
}
