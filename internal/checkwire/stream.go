package checkwire

import "encoding/binary"

// Tags of the messages on a stream of checks.
const (
	streamedID       = 1<<3 | asNumber
	streamedRequest  = 2<<3 | asPart
	streamedResponse = 2<<3 | asPart
	streamedError    = 3<<3 | asPart
	streamedCode     = 4<<3 | asNumber
	streamedFields   = 2 // of a request, the largest number

	streamRequests = 1<<3 | asPart
	streamAnswers  = 1<<3 | asPart
)

// ReadStreamed calls each with the id and the bytes of every request of a CheckStreamRequest, in
// order, until each returns false. It returns false if each did, or if the generated code has to
// decode the message.
func ReadStreamed(message []byte, each func(id uint64, request []byte) bool) bool {
	return ReadBatch(message, func(streamed []byte) bool {
		id, request, ok := readStreamed(streamed)
		return ok && each(id, request)
	})
}

func readStreamed(streamed []byte) (id uint64, request []byte, ok bool) {
	s := scanner{data: streamed}
	said := false
	for s.more() {
		switch s.tag() {
		case streamedID:
			s.drop()
			id = s.number()
		case streamedRequest:
			s.drop()
			s.odd = said // repeated messages would have to be merged
			said = true
			request = s.bytes()
		default:
			s.skip(streamedFields)
		}
	}
	return id, request, !s.odd
}

// AppendStreamed appends the answer to b as the next one of a CheckStreamResponse.
func (a *Answer) AppendStreamed(b []byte, id uint64) []byte {
	b, answer := begin(b, streamAnswers)
	b = appendID(b, id)
	b, response := begin(b, streamedResponse)
	return end(end(a.Append(b), response), answer)
}

// AppendStreamedError appends to b an answer of a CheckStreamResponse that only has the reason why
// the request could not be decided. code is gRPC's number.
func AppendStreamedError(b []byte, id uint64, why string, code uint32) []byte {
	b, answer := begin(b, streamAnswers)
	b = appendText(appendID(b, id), streamedError, why)
	return end(appendNumber(b, streamedCode, int64(code)), answer)
}

func appendID(b []byte, id uint64) []byte {
	if id == 0 {
		return b
	}
	return binary.AppendUvarint(append(b, streamedID), id)
}
