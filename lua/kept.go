package lua

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"aliquot/limit"
)

// partNumbers is how many numbers describe the result of one limit of a settlement.
const partNumbers = 6

// Kept is what a store keeps of a reservation. The zero value is nothing.
type Kept struct {
	// Stamp identifies the store's contents. At is when the reservation was made, in microseconds: by
	// the earliest of the clocks of the servers that decided.
	Stamp uint32
	At    int64
	// Text is Reservation.Text.
	Text string
	// Settled: the reservation was ended, at SettledAt, with Note.
	Settled   bool
	SettledAt int64
	Note      string
	Adjusted  []limit.Adjusted

	taken packed // take's reply, after the clock
	text  string
}

// Results returns what the store answered when the reservation was made. Of groups it uses only the
// algorithms, which must be those of that time.
func (k *Kept) Results(groups []Group) ([]Result, error) {
	results, _, err := readTake(nil, []any{k.At, string(k.taken)}, withoutChunks(groups))
	return results, err
}

// withoutChunks returns groups as they are remembered: without what was lent.
func withoutChunks(groups []Group) []Group {
	if loans(groups) == 0 {
		return groups
	}
	out := make([]Group, len(groups))
	for i, g := range groups {
		out[i] = Group{Cost: g.Cost, Limits: slices.Clone(g.Limits)}
		for j := range out[i].Limits {
			out[i].Limits[j].View.Chunk = limit.ChunkView{}
		}
	}
	return out
}

// NewKept returns what a store keeps of a reservation that was just made; see reserve.lua.
func NewKept(stamp uint32, now int64, groups []Group, results []Result, text string) *Kept {
	b := fmt.Appendf(nil, "%08x %d", stamp, now)
	for i, r := range results {
		b = fmt.Appendf(b, " %d", bit(r.Allowed))
		for j, out := range r.Limits {
			n := [2]int64{out.Bucket.Rate.Micro, out.Bucket.Rate.Frac}
			if groups[i].Limits[j].View.Algorithm.Counts() {
				n = [2]int64{out.Reset, out.Retry}
			}
			b = fmt.Appendf(b, " %d %d %d %d %d", out.Tokens, out.Bucket.Cap, n[0], n[1], bit(out.Amnesia))
		}
	}
	k, err := ParseKept(string(b) + "\n" + text)
	if err != nil {
		panic(err) // this function wrote it
	}
	return k
}

// Ended returns what is kept once the reservation was settled; see settle.lua.
func (k *Kept) Ended(now int64, adjusted []limit.Adjusted, note string) *Kept {
	b := fmt.Appendf(nil, "%s\n%d", k.text, now)
	for _, a := range adjusted {
		b = fmt.Appendf(b, " %d %d %d %d %d %d", a.Refunded, a.Spare, a.Charged, a.Tokens, bit(a.Amnesia), a.InUse)
	}
	out, err := ParseKept(string(b) + "\n" + note)
	if err != nil {
		panic(err) // this function wrote it
	}
	return out
}

// Stored returns the text that a store keeps.
func (k *Kept) Stored() string { return k.text }

// Is reports whether both are the same reservation in the same state.
func (k *Kept) Is(other *Kept) bool { return k.text == other.text }

// ParseKept reads what reserve.lua and settle.lua keep. Its errors wrap ErrInvalid.
func ParseKept(text string) (*Kept, error) {
	lines := strings.Split(text, "\n")
	if len(lines) != 2 && len(lines) != 4 {
		return nil, fmt.Errorf("%w: a reservation of %d lines", ErrInvalid, len(lines))
	}
	stamp, taken, _ := strings.Cut(lines[0], " ")
	u, err := strconv.ParseUint(stamp, 16, 32)
	if err != nil {
		return nil, fmt.Errorf("%w: a reservation's stamp: %w", ErrInvalid, err)
	}
	k := &Kept{Stamp: uint32(u), Text: lines[1], text: text}
	n, err := integersOf(taken)
	if err != nil {
		return nil, err
	}
	k.At, k.taken = n[0], packed(pack(nil, n[1:]...))
	if len(lines) == 2 {
		return k, nil
	}
	if n, err = integersOf(lines[2]); err != nil || (len(n)-1)%partNumbers != 0 {
		return nil, fmt.Errorf("%w: what a reservation was settled with: %d numbers (%v)", ErrInvalid, len(n), err)
	}
	k.Settled, k.SettledAt, k.Note, k.Adjusted = true, n[0], lines[3], adjustedOf(n)
	return k, nil
}

// integersOf reads at least one number.
func integersOf(line string) ([]int64, error) {
	var out []int64
	for field := range strings.SplitSeq(line, " ") {
		n, err := strconv.ParseInt(field, 10, 64)
		if err != nil {
			return nil, fmt.Errorf("%w: a reservation's numbers: %w", ErrInvalid, err)
		}
		out = append(out, n)
	}
	return out, nil
}

// adjustedOf reads the clock, and what the limits were adjusted by at that time.
func adjustedOf(n []int64) []limit.Adjusted {
	at, n := n[0], n[1:]
	out := make([]limit.Adjusted, 0, len(n)/partNumbers)
	for ; len(n) > 0; n = n[partNumbers:] {
		out = append(out, limit.Adjusted{
			Refunded: limit.Tokens(n[0]), Spare: limit.Tokens(n[1]), Charged: limit.Tokens(n[2]),
			Tokens: limit.Tokens(n[3]), Amnesia: n[4] == 1, InUse: limit.Tokens(n[5]), At: at,
		})
	}
	return out
}
