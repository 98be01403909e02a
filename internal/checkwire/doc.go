// Package checkwire encodes and decodes the messages of the hot path, CheckRequest, CheckResponse and
// their batches, as protobuf bytes without message objects. Decoding a request allocates nothing
// and copies no text. An answer is encoded from plain values.
//
// The generated code stays the authority. A reader decodes ordinary messages, with the same result
// as the generated code. For every other message, whether wrong or only unusual, it returns false.
// The caller then uses the generated code, whose result or error is the answer. So each error has
// one text, and no message is accepted on one path and refused on the other.
//
// The package is pure. Its values are not safe for concurrent use.
package checkwire
