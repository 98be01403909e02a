// Package rules reads the rules file, says precisely what is wrong with it, and finds the limits
// that apply to a request.
//
// The package is pure: no I/O, no clock, no globals. [Parse] converts the bytes of a file to an
// immutable [Set], or to an [*Error] that lists every problem with its file, line and column.
// [Set.Match] finds the limits without allocating, and [Set.Explain] explains them to people.
//
// An [Entry] is a block, an allow, an override or the value of a tier that an operator has set
// above the file. [Set.With] returns a Set with such entries; the text of the file stays as it is.
//
// # Inheritance of values
//
// Every setting of a rule comes from the nearest place that states it: the rule, then the tier of
// that name, then defaults, then the built-in value. An override changes the limit (params) of the
// API keys that it names, on top of all of these. Params inherit number by number, with one
// exception that keeps a limit from being half of one statement and half of another: see
// params.over.
//
// # Which rules apply
//
// All rules apply whose conditions a request meets, except those that another one of them replaces
// (see [Set.Match]). A rule in shadow replaces only rules in shadow.
//
// Entries of lists and overrides may have an end; afterwards they have no effect. The package has
// no clock, so the caller passes the time.
//
// # Absent attributes
//
// An attribute that a request does not have counts as an empty one, in matching and in keys. So the
// pattern "*" also matches a request without that attribute, and "?*" requires one that is not
// empty.
package rules
