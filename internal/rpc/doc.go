// Package rpc holds what both daemons need to speak RPC: the JSON codec, an HTTP
// server with limits, listeners whose errors say which flag to change, a client,
// and the table that turns errors into RPC codes at the edge.
package rpc
