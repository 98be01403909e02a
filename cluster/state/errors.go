package state

import (
	"errors"
	"fmt"
)

// ErrVersionConflict refuses a change of the rules that was made against another version than the one in force. It
// is returned by value.
type ErrVersionConflict struct {
	Expected uint64
	InForce  uint64
}

// Error implements error.
func (e ErrVersionConflict) Error() string {
	return fmt.Sprintf("cluster: rules version %d was expected, but %d is in force; read the rules again and reapply the change", e.Expected, e.InForce)
}

var (
	// ErrTooLarge refuses a command above MaxCommandBytes before it reaches the log.
	ErrTooLarge = errors.New("cluster: command too large")
	// ErrRolloutUnderWay refuses a change of the rules while a version is staged.
	ErrRolloutUnderWay = errors.New("cluster: a roll-out is under way")
	// ErrNoRollout refuses to end a roll-out that is not under way (any more).
	ErrNoRollout = errors.New("cluster: there is no roll-out")
	// ErrNotStageable refuses to stage rules under which a rule would have two limits or none.
	ErrNotStageable = errors.New("cluster: this version cannot be staged")
	// ErrNothingInForce refuses to stage rules, or to set entries, before any rules are in force.
	ErrNothingInForce = errors.New("cluster: there is nothing to go back to")
	// ErrUnknownVersion says that a version of the rules is not kept (any more).
	ErrUnknownVersion = errors.New("cluster: no such version of the rules is kept")
	// ErrInvalidArgument refuses a malformed request.
	ErrInvalidArgument = errors.New("cluster: invalid argument")
	// ErrBadSnapshot refuses a snapshot that is truncated, altered or of an unknown format.
	ErrBadSnapshot = errors.New("cluster: snapshot refused")
)
