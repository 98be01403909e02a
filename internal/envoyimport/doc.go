// Package envoyimport turns configuration files of envoyproxy/ratelimit into a rules
// file, and says of every descriptor what it could not carry over and what differs.
//
// That project walks a request's descriptor, a list of entries, down a tree of
// configured ones: at each level the node of the entry's exact value is taken, else the
// first wildcard that fits, else the node of the key alone; it never goes back. Only
// the node of the last entry limits. A rules file has no order and no tree, so a rule
// asks for all of that at once: the values on its path, that no other key known in the
// domain is there, and that no more specific sibling would have been taken. The last is
// said by `replaces` where that sibling has a rule of its own for the same requests, and
// by a regular expression of all other values where it has none.
//
// Pure: files in, text out; nothing depends on the order of a map.
package envoyimport
