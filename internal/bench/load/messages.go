package load

import (
	"encoding/binary"
	"fmt"
)

// messages records the answers that have come whole on the stream that all calls share. Its
// end is one of all calls that are under way.
func (g *grpcConn) messages(ended bool, how error) error {
	from := 0
	for {
		left := g.long.answer[from:]
		if len(left) < grpcHead {
			break
		}
		size := int64(binary.BigEndian.Uint32(left[1:]))
		if left[0] != 0 || size > maxAnswer {
			return fmt.Errorf("%w: a message of %d bytes, compression %d", errAnswer, size, left[0])
		}
		if int64(len(left)) < grpcHead+size {
			break
		}
		if err := g.reply(left[grpcHead : grpcHead+size]); err != nil {
			return err
		}
		from += grpcHead + int(size)
	}
	g.long.answer = append(g.long.answer[:0], g.long.answer[from:]...)
	if ended && how == nil {
		how = g.refusal()
	}
	return how
}

// reply records the answer to one call.
func (g *grpcConn) reply(message []byte) error {
	id, err := firstID(message)
	if err != nil {
		return err
	}
	c := g.calls[uint32(id/idsOfCall)]
	if c == nil {
		return fmt.Errorf("%w: of a check that was not sent, %d", errAnswer, id)
	}
	delete(g.calls, c.number)
	g.answered(c.due, c.sent, message)
	g.done = append(g.done, c)
	return nil
}
