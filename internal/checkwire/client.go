package checkwire

import (
	"encoding/binary"
	"math"
	"time"
)

// The client's side: it encodes requests and decodes answers.

// Append appends the request to b as a CheckRequest. It leaves out a cost of 1, as the message
// allows.
func (r *Request) Append(b []byte) []byte {
	for i := range r.Attributes {
		var at int
		b, at = begin(b, requestAttribute)
		b = appendText(b, entryName, r.Attributes[i].Name)
		b = end(appendText(b, entryValue, r.Attributes[i].Value), at)
	}
	if r.Cost != 1 {
		b = binary.AppendUvarint(append(b, requestCost), uint64(r.Cost))
	}
	b = appendText(b, requestNamespace, r.Namespace)
	for i := range r.Costs {
		var at int
		b, at = begin(b, requestUnitCost)
		b = appendText(b, entryName, r.Costs[i].Unit)
		b = end(appendNumber(b, entryUnitCost, r.Costs[i].Cost), at)
	}
	return b
}

// AppendToBatch appends the request to b as the next one of a CheckBatchRequest.
func (r *Request) AppendToBatch(b []byte) []byte {
	b, at := begin(b, batchRequest)
	return end(r.Append(b), at)
}

// Read decodes a CheckResponse into a. The texts of a share the message's memory. It returns false
// if the generated code has to decode the message; then a is undefined.
func (a *Answer) Read(message []byte) bool {
	a.Reset()
	s := scanner{data: message}
	for s.more() {
		tag := s.tag()
		if tag == 0 && s.longTag(answerProblem) {
			a.Problem = s.text()
			continue
		}
		if tag == 0 || tag>>3 > answerFields {
			s.skip(answerFields)
			continue
		}
		s.drop()
		switch tag {
		case answerAllowed:
			a.Allowed = s.number() != 0
		case answerRuleID:
			a.RuleID = s.text()
		case answerLimit:
			a.Limit = int64(s.number())
		case answerRemaining:
			a.Remaining = int64(s.number())
		case answerResetAfter:
			s.duration(&a.ResetAfter)
		case answerRetryAfter:
			s.duration(&a.RetryAfter)
		case answerMode:
			a.Mode = s.text()
		case answerLimits:
			a.Limits = append(a.Limits, Limit{})
			s.odd = !a.Limits[len(a.Limits)-1].read(s.bytes()) || s.odd
		case answerReason:
			a.Reason = s.text()
		case answerNever:
			a.Never = s.number() != 0
		case answerDecisionID:
			a.DecisionID = s.text()
		case answerDelay:
			s.duration(&a.Delay)
		default:
			s.odd = true
		}
	}
	return !s.odd
}

func (l *Limit) read(message []byte) bool {
	s := scanner{data: message}
	for s.more() {
		tag := s.tag()
		if tag == 0 || tag>>3 > limitFields {
			s.skip(limitFields)
			continue
		}
		s.drop()
		switch tag {
		case limitRuleID:
			l.RuleID = s.text()
		case limitAllowed:
			l.Allowed = s.number() != 0
		case limitLimit:
			l.Limit = int64(s.number())
		case limitRemaining:
			l.Remaining = int64(s.number())
		case limitResetAfter:
			s.duration(&l.ResetAfter)
		case limitRetryAfter:
			s.duration(&l.RetryAfter)
		case limitMode:
			l.Mode = s.text()
		case limitNever:
			l.Never = s.number() != 0
		case limitWindow:
			s.duration(&l.Window)
		case limitAlgorithm:
			l.Algorithm = s.text()
		case limitDelay:
			s.duration(&l.Delay)
		case limitShadow:
			l.Shadow = s.number() != 0
		case limitUnit:
			l.Unit = s.text()
		default:
			s.odd = true
		}
	}
	return !s.odd
}

// ReadResults calls each with the bytes of every result of a CheckBatchResponse, in order, until
// each returns false. It returns false if each did, or if the generated code has to decode the
// message.
func ReadResults(message []byte, each func(result []byte) bool) bool {
	return ReadBatch(message, each) // the fields have the same number and type
}

// ReadResult decodes one result into a. why is not empty if the request could not be decided. ok is
// false if the generated code has to decode the result.
func (a *Answer) ReadResult(result []byte) (why string, ok bool) {
	a.Reset()
	s := scanner{data: result}
	answered := false
	for s.more() {
		switch s.tag() {
		case resultResponse:
			s.drop()
			part := s.bytes()
			s.odd = s.odd || answered || !a.Read(part)
			answered = true
		case resultError:
			s.drop()
			why = s.text()
		default:
			s.skip(2)
		}
	}
	return why, !s.odd
}

// duration decodes a Duration. A repeated Duration is odd, because the two would have to be merged.
// A negative one is odd too, and so is one that is too long.
func (s *scanner) duration(d *time.Duration) {
	part := scanner{data: s.bytes(), odd: s.odd || *d != 0}
	var seconds, nanos uint64
	for part.more() {
		switch part.tag() {
		case durationSeconds:
			part.drop()
			seconds = part.number()
		case durationNanos:
			part.drop()
			nanos = part.number()
		default:
			part.odd = true
		}
	}
	const longest = math.MaxInt64/uint64(time.Second) - 1
	s.odd = part.odd || seconds > longest || nanos >= uint64(time.Second)
	*d = time.Duration(seconds)*time.Second + time.Duration(nanos)
}
