// Package store keeps a region's buckets: in Redis, decided by Lua scripts, or in
// this process. Both give the same answers; package limit says which.
package store

import (
	"crypto/rand"
	"encoding/hex"

	"aliquot/lua"
)

// The calls of a store, in the words of package lua.
type (
	Group   = lua.Group
	KeyView = lua.KeyView
	Result  = lua.Result
	Change  = lua.Change
	// EpochError is the answer to a call that expects other contents.
	EpochError = lua.EpochError
)

// ErrInvalid is wrapped by errors about arguments that no store could serve.
var ErrInvalid = lua.ErrInvalid

// newNonce makes one store's contents differ from any other's.
func newNonce() string {
	var b [8]byte
	rand.Read(b[:]) // never fails: crypto/rand crashes the process instead
	return hex.EncodeToString(b[:])
}
