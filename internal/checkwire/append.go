package checkwire

import (
	"encoding/binary"
	"time"
)

// Tags of an answer's fields: number and type.
const (
	answerAllowed    = 1<<3 | asNumber
	answerRuleID     = 2<<3 | asPart
	answerLimit      = 3<<3 | asNumber
	answerRemaining  = 4<<3 | asNumber
	answerResetAfter = 5<<3 | asPart
	answerRetryAfter = 6<<3 | asPart
	answerMode       = 7<<3 | asPart
	answerLimits     = 8<<3 | asPart
	answerReason     = 9<<3 | asPart
	answerNever      = 10<<3 | asNumber
	answerDecisionID = 11<<3 | asPart
	answerDelay      = 12<<3 | asPart
	answerFields     = 12 // the largest number whose tag has one byte
	answerProblem    = 70<<3 | asPart

	limitRuleID     = 1<<3 | asPart
	limitAllowed    = 2<<3 | asNumber
	limitLimit      = 3<<3 | asNumber
	limitRemaining  = 4<<3 | asNumber
	limitResetAfter = 5<<3 | asPart
	limitRetryAfter = 6<<3 | asPart
	limitMode       = 7<<3 | asPart
	limitNever      = 8<<3 | asNumber
	limitWindow     = 9<<3 | asPart
	limitAlgorithm  = 10<<3 | asPart
	limitDelay      = 11<<3 | asPart
	limitShadow     = 12<<3 | asNumber
	limitUnit       = 13<<3 | asPart
	limitFields     = 13

	durationSeconds = 1<<3 | asNumber
	durationNanos   = 2<<3 | asNumber

	resultsResult  = 1<<3 | asPart
	resultResponse = 1<<3 | asPart
	resultError    = 2<<3 | asPart
)

// Append appends the answer to b as a CheckResponse.
func (a *Answer) Append(b []byte) []byte {
	b = appendBool(b, answerAllowed, a.Allowed)
	b = appendText(b, answerRuleID, a.RuleID)
	b = appendNumber(b, answerLimit, a.Limit)
	b = appendNumber(b, answerRemaining, a.Remaining)
	b = appendDuration(b, answerResetAfter, a.ResetAfter)
	b = appendDuration(b, answerRetryAfter, a.RetryAfter)
	b = appendText(b, answerMode, a.Mode)
	for i := range a.Limits {
		var at int
		b, at = begin(b, answerLimits)
		b = end(a.Limits[i].append(b), at)
	}
	b = appendText(b, answerReason, a.Reason)
	b = appendBool(b, answerNever, a.Never)
	b = appendText(b, answerDecisionID, a.DecisionID)
	b = appendDuration(b, answerDelay, a.Delay)
	if a.Problem != "" {
		b = append(binary.AppendUvarint(b, answerProblem), byte(len(a.Problem))) // always shorter than 128 bytes
		b = append(b, a.Problem...)
	}
	return b
}

func (l *Limit) append(b []byte) []byte {
	b = appendText(b, limitRuleID, l.RuleID)
	b = appendBool(b, limitAllowed, l.Allowed)
	b = appendNumber(b, limitLimit, l.Limit)
	b = appendNumber(b, limitRemaining, l.Remaining)
	b = appendDuration(b, limitResetAfter, l.ResetAfter)
	b = appendDuration(b, limitRetryAfter, l.RetryAfter)
	b = appendText(b, limitMode, l.Mode)
	b = appendBool(b, limitNever, l.Never)
	b = appendDuration(b, limitWindow, l.Window)
	b = appendText(b, limitAlgorithm, l.Algorithm)
	b = appendDuration(b, limitDelay, l.Delay)
	b = appendBool(b, limitShadow, l.Shadow)
	return appendText(b, limitUnit, l.Unit)
}

// AppendResult appends the answer to b as the next result of a CheckBatchResponse.
func (a *Answer) AppendResult(b []byte) []byte {
	b, result := begin(b, resultsResult)
	b, response := begin(b, resultResponse)
	return end(end(a.Append(b), response), result)
}

// AppendError appends to b a result of a CheckBatchResponse that only has the reason why the
// request could not be decided.
func AppendError(b []byte, why string) []byte {
	b, result := begin(b, resultsResult)
	return end(appendText(b, resultError, why), result)
}

// begin appends the tag of a part and one byte for its length, which suffices for most parts of an
// answer. at is where the part starts.
func begin(b []byte, tag byte) (out []byte, at int) {
	return append(b, tag, 0), len(b) + 2
}

// end writes the length of the part from at to the end of b. If the length needs more than one
// byte, the part is moved.
func end(b []byte, at int) []byte {
	n := len(b) - at
	if n < 0x80 {
		b[at-1] = byte(n)
		return b
	}
	var length [binary.MaxVarintLen64]byte
	size := binary.PutUvarint(length[:], uint64(n))
	b = append(b, length[:size-1]...) // room into which the part moves
	copy(b[at-1+size:], b[at:at+n])
	copy(b[at-1:], length[:size])
	return b
}

func appendBool(b []byte, tag byte, v bool) []byte {
	if !v {
		return b
	}
	return append(b, tag, 1)
}

func appendNumber(b []byte, tag byte, v int64) []byte {
	if v == 0 {
		return b
	}
	return binary.AppendUvarint(append(b, tag), uint64(v))
}

func appendText(b []byte, tag byte, text string) []byte {
	if text == "" {
		return b
	}
	if len(text) < 0x80 {
		b = append(b, tag, byte(len(text)))
	} else {
		b = binary.AppendUvarint(append(b, tag), uint64(len(text)))
	}
	return append(b, text...)
}

// appendDuration appends a Duration, also if it is zero. Its length always has one byte.
func appendDuration(b []byte, tag byte, d time.Duration) []byte {
	b = append(b, tag, 0)
	at := len(b)
	b = appendNumber(b, durationSeconds, int64(d/time.Second))
	b = appendNumber(b, durationNanos, int64(d%time.Second))
	b[at-1] = byte(len(b) - at)
	return b
}
