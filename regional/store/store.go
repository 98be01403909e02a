// Package store keeps the records of a region's keys, either in Redis, where Lua scripts decide, or
// in this process. Both give the same answers, which package limit specifies.
package store

import (
	"crypto/rand"
	"encoding/hex"

	"aliquot/lua"
)

// Types of package lua that the calls of a store take and return.
type (
	Group   = lua.Group
	KeyView = lua.KeyView
	Result  = lua.Result
	Change  = lua.Change
	// EpochError is the answer to a call that expects other contents than the store has.
	EpochError = lua.EpochError
)

// ErrInvalid is wrapped by errors about arguments that no store could serve.
var ErrInvalid = lua.ErrInvalid

// newNonce returns a random text that no other store's contents have.
func newNonce() string {
	var b [8]byte
	rand.Read(b[:]) // never fails: crypto/rand crashes the process instead
	return hex.EncodeToString(b[:])
}
