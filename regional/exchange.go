package regional

import (
	"context"
	"fmt"
	"sync"

	"google.golang.org/protobuf/proto"

	aliquotv1 "aliquot/proto/aliquot/v1"
	"aliquot/wire"
)

// exchange is one call of Check or CheckBatch as bytes: what was asked, in the message's
// own texts, and what is answered. Everything that it needs it keeps for the next call. It
// belongs to one call at a time.
type exchange struct {
	pool  *exchanges // where it goes when it is done; nil: nowhere
	batch bool
	// message is the request as it came: requests point into it.
	message  []byte
	requests wire.Requests
	valid    []request
	invalid  []invalid
	answer   wire.Answer
	// admitted tells, of a batch, that one of its requests was.
	admitted bool
	// reply is the response.
	reply []byte
	// unreadable is why the message cannot be read, refused why it is not answered though
	// it can.
	unreadable, refused error
}

// invalid is a request of a batch that was not decided.
type invalid struct {
	at  int
	why error
}

// maxKept bounds what one exchange keeps for the next call, so that a few large batches
// do not hold memory for good.
const maxKept = 1 << 20

// exchanges are kept for the next calls. Safe for concurrent use.
type exchanges struct{ kept sync.Pool }

func (p *exchanges) take(batch bool) *exchange {
	x, ok := p.kept.Get().(*exchange)
	if !ok {
		x = &exchange{pool: p}
	}
	x.batch = batch
	return x
}

// done is the last that is done with an exchange that was answered. What was read is
// forgotten at once: it points into a message that is written over by the next call. After
// an error an exchange is not used again, since what it was handed to may hold on to it.
func (x *exchange) done() {
	if x.pool == nil || cap(x.message)+cap(x.reply)+x.requests.Room() > maxKept {
		return
	}
	x.requests.Reset()
	clear(x.valid)
	clear(x.invalid)
	x.answer.Reset()
	x.message, x.valid, x.invalid, x.reply = x.message[:0], x.valid[:0], x.invalid[:0], x.reply[:0]
	x.unreadable, x.refused = nil, nil
	x.pool.kept.Put(x)
}

// read reads the message. What is unusual of it, or wrong, is for the generated code to
// tell, whose error is returned.
func (x *exchange) read() error {
	if x.batch && wire.ReadBatch(x.message, x.next) && len(x.requests.All) > 0 || !x.batch && x.requests.Read(x.message) {
		return nil
	}
	x.requests.Reset()
	in := x.asked()
	if err := proto.Unmarshal(x.message, in); err != nil {
		return err
	}
	x.take(in)
	return nil
}

// next reads one request of a batch that is not too large.
func (x *exchange) next(message []byte) bool {
	return len(x.requests.All) < maxBatch && x.requests.Read(message)
}

// asked is an empty message of what the exchange asks.
func (x *exchange) asked() proto.Message {
	if x.batch {
		return new(aliquotv1.CheckBatchRequest)
	}
	return new(aliquotv1.CheckRequest)
}

// answered is an empty message of what the exchange answers.
func (x *exchange) answered() proto.Message {
	if x.batch {
		return new(aliquotv1.CheckBatchResponse)
	}
	return new(aliquotv1.CheckResponse)
}

// take takes what a message asks.
func (x *exchange) take(in proto.Message) {
	one, ok := in.(*aliquotv1.CheckRequest)
	if ok {
		x.requests.All = append(x.requests.All, wireRequest(one))
		return
	}
	all := in.(*aliquotv1.CheckBatchRequest).GetRequests()
	if n := len(all); n < 1 || n > maxBatch {
		x.refused = fmt.Errorf("%w: a batch of %d requests; send 1 to %d", errInvalid, n, maxBatch)
		return
	}
	for _, one := range all {
		x.requests.All = append(x.requests.All, wireRequest(one))
	}
}

// serve decides what was read, and writes the reply. Its error is one of RPC.
func (s *service) serve(ctx context.Context, x *exchange) error {
	if x.refused != nil {
		return rpcCodes.Error(x.refused)
	}
	if x.batch {
		if err := s.checkBatch(ctx, x, x.result); err != nil {
			return err
		}
		s.throttle.answeredBatch(ctx, x)
		return nil
	}
	if err := s.check(ctx, x.requests.All[0], &x.answer); err != nil {
		return err
	}
	s.throttle.answered(ctx, x.answer.Allowed)
	x.reply = x.answer.Append(x.reply)
	return nil
}

// result adds a result of a batch to the reply.
func (x *exchange) result(why error) {
	if why != nil {
		x.reply = wire.AppendError(x.reply, why.Error())
	} else {
		x.reply = x.answer.AppendResult(x.reply)
	}
}
