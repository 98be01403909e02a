// Package wire reads and writes the messages of the hot path, CheckRequest, CheckResponse
// and their batches, as protobuf bytes, without making messages of them: reading a request
// allocates nothing and copies no text, and an answer is written from plain values.
//
// The generated code stays the authority. A reader takes what is ordinary, and then says
// just what the generated code would have said; of anything else, be it wrong or only
// unusual, it reports false, and the caller asks the generated code, whose error is the
// answer then. So there is one wording of every error, and nothing that one path accepts
// and the other refuses.
//
// The package is pure. Its values are not safe for concurrent use.
package wire
