package rules

import (
	"aliquot/rules/document"
	"aliquot/rules/source"
)

// The results of Parse about a file.
type (
	// Problem is one mistake in a file.
	Problem = source.Problem
	// Warning is a remark about a file that is accepted.
	Warning = source.Warning
	// Error is the problems of one file, in the order of the file, at most source.MaxProblems of them.
	Error = source.Error
)

// Parts of a rule as the file states them.
type (
	// ListEntry is one entry of the whitelist or the blacklist.
	ListEntry = document.ListEntry
	// Note is the end of an entry, the reason for it and its author.
	Note = document.Note
	// ParamsText are the numbers of a limit in the form in which people state them.
	ParamsText = document.ParamsText
	// CoolDown is a rule's answer to clients that ask again before the time they were told.
	CoolDown = document.CoolDown
	// AutoBlock is how a rule blocks a client that is denied again and again.
	AutoBlock = document.AutoBlock
)

const (
	// MaxFileBytes is the size of the largest rules file. It also bounds the Raft log entry that carries
	// the file.
	MaxFileBytes = source.MaxFileBytes
	// MaxNameChars caps ids, attribute names and tier names.
	MaxNameChars = source.MaxNameChars
	// MaxAttributes caps the attributes of one match, and the attributes of a request.
	MaxAttributes = document.MaxAttributes
	// MaxValues caps the values that one attribute of a match may have.
	MaxValues = document.MaxValues
	// MaxKeyAttributes caps the attributes of one key.
	MaxKeyAttributes = document.MaxKeyAttributes
	// MaxReplaces caps the rules that one rule replaces.
	MaxReplaces = document.MaxReplaces
)

// The values of Rule.Algorithm, Rule.Unit, Rule.Enforcement, Rule.Placement, Rule.BorrowWait and
// Rule.OnRedisFailure. Package document says what each one means.
const (
	TokenBucket          = document.TokenBucket
	LeakyBucket          = document.LeakyBucket
	FixedWindow          = document.FixedWindow
	SlidingWindowLog     = document.SlidingWindowLog
	SlidingWindowCounter = document.SlidingWindowCounter
	Concurrency          = document.Concurrency

	UnitRequests    = document.UnitRequests
	UnitConcurrency = document.UnitConcurrency

	Strict      = document.Strict
	Elastic     = document.Elastic
	Independent = document.Independent

	Auto           = document.Auto
	Split          = document.Split
	Home           = document.Home
	AutoBorrowWait = document.AutoBorrowWait

	FailLocal  = document.FailLocal
	FailOpen   = document.FailOpen
	FailClosed = document.FailClosed
)
