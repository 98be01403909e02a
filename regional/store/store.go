// Package store keeps the records of a region's keys in Redis or in a Redis Cluster, where Lua scripts
// decide. Package memory keeps them in this process. All give the same answers, which package limit
// specifies.
package store

import (
	"aliquot/lua"
	"aliquot/regional/store/replies"
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

var (
	// ErrInvalid is wrapped by errors about arguments that no store could serve.
	ErrInvalid = lua.ErrInvalid
	// ErrReply is wrapped by the error of a call whose server sent a malformed or too large reply.
	ErrReply = replies.ErrReply
)
