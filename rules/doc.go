// Package rules reads the rules file, says precisely what is wrong with it, and
// finds the limits that apply to a request.
//
// The package is pure: no I/O, no clock, no globals. [Parse] turns the bytes of a
// file into an immutable [Set] or into an [*Error] that lists every problem with
// its file, line and column. A Set answers [Set.Match] without allocating, and
// [Set.Explain] for people.
//
// [Block], [Allow], [Unlist], [SetOverride], [RemoveOverride] and [SetTier] change the
// text of a file in one place and leave the rest as it is.
//
// # What a value inherits
//
// Every setting of a rule comes from the nearest place that states it: the rule,
// then the tier of that name, then defaults, then the built-in value. An override
// changes the limit (params) of the API keys it names, on top of all of these.
// Params inherit number by number, with one exception that keeps a limit from
// being half of one statement and half of another: see params.over.
//
// # Which rules apply
//
// All rules whose conditions a request meets, except those that another one of them
// replaces (see [Set.Match]). A rule in shadow replaces rules in shadow only.
//
// Entries of lists and overrides may end; one that is over is as if it was not there.
// The package has no clock: whoever asks says what time it is.
//
// # Absent attributes
//
// An attribute that a request does not carry counts as an empty one, in matching as
// in keys. So the pattern "*" also holds for a request without that attribute, and
// "?*" asks for one that is not empty.
package rules
