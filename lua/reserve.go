package lua

import (
	"context"
	_ "embed"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"aliquot/limit"
)

//go:embed reserve.lua
var reserveSource string

//go:embed reserve_end.lua
var reserveEndSource string

//go:embed settle.lua
var settleSource string

//go:embed adjust.lua
var adjustSource string

//go:embed adjust_end.lua
var adjustEndSource string

//go:embed settle_end.lua
var settleEndSource string

// MaxReservationBytes bounds the text that a caller leaves with a reservation, and the text of the
// note. MaxLimits limits and TakeChunk shadows fit into it, with the longest names that rules have.
const MaxReservationBytes = 640 << 10

// ErrNoRoom is wrapped by errors of a store that has no room for another reservation. Nothing was
// charged.
var ErrNoRoom = errors.New("no room for another reservation")

// ErrPartly is wrapped by errors of a store of several servers that could ask only some of the
// servers that a reservation concerns. Nothing is remembered.
var ErrPartly = errors.New("only some of the store's servers answered")

// ReservationKey returns the key of a reservation by a keyed hash: "aq:{<hash, base64url>}:r".
func ReservationKey(hash [16]byte) string {
	return keyPrefix + base64.RawURLEncoding.EncodeToString(hash[:]) + "}:r"
}

// Reservation is what a store must remember of a request besides its charges.
type Reservation struct {
	Key string // ReservationKey
	// Text is the caller's text, without a line break, at most MaxReservationBytes.
	Text string
	// Keep is how long the store remembers it, in whole milliseconds.
	Keep time.Duration
	// Decided: the first group decides. If it is denied, nothing is remembered.
	Decided bool
}

// Reserved is the answer to a reservation. If there was an earlier reservation of the same name,
// Earlier has it and nothing was done. If both fields are set, what was done was given back, except
// for the chunks in the views.
type Reserved struct {
	Results []Result
	Earlier *Kept
}

// Settlement ends a reservation.
type Settlement struct {
	Key string
	// Was is what the caller read. If the store has something else now, it does nothing.
	Was *Kept
	// Ends is the last instant of the store's clock, in microseconds, at which the reservation may
	// be settled.
	Ends  int64
	Parts []Part
	// Note is added to what is kept. It is limited like Reservation.Text.
	Note string
}

// Part is one limit of a settlement. The requirements of KeyView for views hold for it too.
type Part struct {
	Key string
	limit.Adjustment
}

// Settled is the answer to a settlement. Expired: it came after the end. Changed: the reservation
// is no longer what the caller read. In both cases nothing was done.
type Settled struct {
	Adjusted []limit.Adjusted
	Expired  bool
	Changed  bool
}

// Reserve is Take for the groups of one request, at most TakeChunk, that the store remembers: a
// reservation of one name is made once. Without groups it is only remembered.
func (s *Scripts) Reserve(ctx context.Context, epoch string, groups []Group, r Reservation) (out Reserved, now int64, err error) {
	if err := CheckReservation(groups, r); err != nil {
		return Reserved{}, 0, err
	}
	h, err := checkGroups(epoch, groups)
	if err != nil {
		return Reserved{}, 0, err
	}
	args := withKey(takeArgs(epoch, &h, groups), r.Key)
	args = append(args, r.Keep.Milliseconds(), r.Text, bit(r.Decided))
	replies, err := s.run(ctx, s.reserve, [][]any{args})
	if err != nil {
		return Reserved{}, 0, fmt.Errorf("lua: reserve: %w", err)
	}
	if text, other := otherText(replies[0]); other {
		kept, err := ParseKept(text)
		if err != nil {
			return Reserved{}, 0, fmt.Errorf("lua: reserve: %w", err)
		}
		return Reserved{Earlier: kept}, 0, nil
	}
	if out.Results, now, err = readTake(nil, replies[0], groups); err != nil {
		return Reserved{}, 0, fmt.Errorf("lua: reserve: %w", err)
	}
	return out, now, nil
}

// CheckReservation returns an error that wraps ErrInvalid if a store cannot keep a reservation.
func CheckReservation(groups []Group, r Reservation) error {
	switch {
	case len(groups) > TakeChunk:
		return fmt.Errorf("%w: a reservation of %d groups; at most %d", ErrInvalid, len(groups), TakeChunk)
	case r.Decided && len(groups) == 0:
		return fmt.Errorf("%w: a reservation that no group decides", ErrInvalid)
	case len(r.Text) > MaxReservationBytes || strings.Contains(r.Text, "\n"):
		return fmt.Errorf("%w: a reservation's text of %d bytes; it is one line of at most %d", ErrInvalid, len(r.Text), MaxReservationBytes)
	case r.Keep < time.Millisecond:
		return fmt.Errorf("%w: a reservation that is kept for %v", ErrInvalid, r.Keep)
	}
	return nil
}

// Reservation reads what is kept under a key, nil if nothing is. An error that is not one of Redis
// is about the kept text.
func (s *Scripts) Reservation(ctx context.Context, key string) (*Kept, error) {
	text, err := s.client.Get(ctx, key).Result()
	if errors.Is(err, redis.Nil) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("lua: reservation: %w", err)
	}
	return ParseKept(text)
}

// Adjust makes adjustments without a reservation. It must not be called twice for the same charge.
func (s *Scripts) Adjust(ctx context.Context, epoch string, parts []Part) ([]limit.Adjusted, error) {
	h := header{stamp: limit.Stamp(epoch)}
	if err := h.admitParts(parts); err != nil {
		return nil, err
	}
	replies, err := s.run(ctx, s.adjust, [][]any{adjustArgs(epoch, &h, parts)})
	if err != nil {
		return nil, fmt.Errorf("lua: adjust: %w", err)
	}
	adjusted, _, err := ReadAdjust(replies[0], len(parts))
	return adjusted, err
}

// CheckParts returns an error that wraps ErrInvalid if a store cannot count with the adjustments.
func CheckParts(epoch string, parts []Part) error {
	h := header{stamp: limit.Stamp(epoch)}
	return h.admitParts(parts)
}

// Settle ends a reservation.
func (s *Scripts) Settle(ctx context.Context, epoch string, end Settlement) (out Settled, now int64, err error) {
	h, err := checkSettlement(epoch, &end)
	if err != nil {
		return Settled{}, 0, err
	}
	replies, err := s.run(ctx, s.settle, [][]any{settleArgs(epoch, &h, &end)})
	if err != nil {
		return Settled{}, 0, fmt.Errorf("lua: settle: %w", err)
	}
	if out, now, err = readSettle(replies[0], len(end.Parts)); err != nil {
		return Settled{}, 0, fmt.Errorf("lua: settle: %w", err)
	}
	return out, now, nil
}

// CheckSettlement returns an error that wraps ErrInvalid if a store cannot count with a settlement.
func CheckSettlement(epoch string, s *Settlement) error {
	_, err := checkSettlement(epoch, s)
	return err
}

func checkSettlement(epoch string, s *Settlement) (header, error) {
	h := header{stamp: limit.Stamp(epoch)}
	if s.Was == nil || len(s.Note) > MaxReservationBytes || strings.Contains(s.Note, "\n") {
		return h, fmt.Errorf("%w: a settlement of nothing that was read, or with a note of %d bytes", ErrInvalid, len(s.Note))
	}
	return h, h.admitParts(s.Parts)
}

func (h *header) admitParts(parts []Part) error {
	for i := range parts {
		p := &parts[i]
		if err := h.admit(p.Key, &p.View); err != nil {
			return err
		}
		if p.View.Chunk.Asked() {
			return fmt.Errorf("%w: adjustment of %s has a chunk", ErrInvalid, p.Key)
		}
		if p.Reserved < 0 || p.Reserved > limit.MaxExact || p.Used < 0 || p.Used > limit.MaxExact || p.At < 0 || p.At > limit.MaxExact ||
			p.Window < 0 || p.Room < 0 || p.Room > limit.MaxTokens || p.Debt < 0 || p.Debt > limit.MaxTokens {
			return fmt.Errorf("%w: adjustment of %s: reserved %d, used %d, at %d, room %d, debt %d",
				ErrInvalid, p.Key, p.Reserved, p.Used, p.At, p.Room, p.Debt)
		}
	}
	return nil
}

func settleArgs(epoch string, h *header, end *Settlement) []any {
	args := adjustArgs(epoch, h, end.Parts)
	args = append(args, end.Was.text, bounded(end.Ends), end.Note)
	return withKey(args, end.Key)
}

func adjustArgs(epoch string, h *header, parts []Part) []any {
	w := newWords(len(parts)+1, 4+len(parts)*(applyNumbers+h.lowNumbers()))
	for i := range parts {
		w.key(&parts[i].Key)
	}
	w.header(h, epoch, h.asksHeard)
	w.add(bounded(h.deadline))
	for i := range parts {
		p := &parts[i]
		if p.View.Algorithm.Counts() {
			w.counted(h, &p.View, true)
			w.add(int64(p.View.Slot), p.At, p.Window)
		} else {
			w.view(h, &p.View)
			room := int64(-1)
			if p.Denied {
				room = int64(p.Room)
			}
			w.add(p.At, room)
		}
		w.add(int64(p.Reserved), int64(p.Used), int64(p.Debt))
	}
	return w.args
}

// withKey adds a key to a call, after all others.
func withKey(args []any, key string) []any {
	keys := args[2].(int)
	args = append(args, nil)
	at := firstKey - 1 + keys
	copy(args[at+1:], args[at:])
	args[2], args[at] = keys+1, key
	return args
}

// otherText returns what is kept under a name, if it is not what the call is about.
func otherText(reply []any) (text string, other bool) {
	if len(reply) != 2 || reply[0] != int64(-3) {
		return "", false
	}
	text, _ = reply[1].(string)
	return text, true
}

func readSettle(reply []any, parts int) (Settled, int64, error) {
	if _, other := otherText(reply); other {
		return Settled{Changed: true}, 0, nil
	}
	if len(reply) == 2 && reply[0] == int64(-4) {
		now, _ := reply[1].(int64)
		return Settled{Expired: true}, now, nil
	}
	n, err := integers(reply, 1+partNumbers*parts)
	if err != nil {
		return Settled{}, 0, err
	}
	return Settled{Adjusted: adjustedOf(n)}, n[0], nil
}
