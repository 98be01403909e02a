package rules

import "aliquot/rules/source"

// What Parse reports of a file.
type (
	// Problem is one mistake in a file.
	Problem = source.Problem
	// Warning is a remark about a file that is accepted.
	Warning = source.Warning
	// Error is the problems of one file, in the order of the file, at most source.MaxProblems of them.
	Error = source.Error
)

const (
	// MaxFileBytes is the size of the largest rules file. It also bounds the Raft log entry that carries
	// the file.
	MaxFileBytes = source.MaxFileBytes
	// MaxNameChars caps ids, attribute names and tier names.
	MaxNameChars = source.MaxNameChars
)
