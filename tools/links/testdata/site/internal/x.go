// Package x is an example: docs/how-to/b.md#set says why, docs/how-to/b.md#unset does not.
package x
