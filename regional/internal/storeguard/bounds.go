package storeguard

import (
	"time"

	"aliquot/internal/storeclock"
	"aliquot/lua"
)

// These are all queues, bounds, deadlines and retries of a call of the store. docs/reference/bounds.md has them with
// those that a check meets on its way here.

// Shared calls.
const (
	// GroupsPerCall bounds the groups of one store call, so that a large call does not hold up the
	// others in Redis. 64 groups take Redis about a quarter of a millisecond.
	GroupsPerCall = lua.TakeChunk
	// BatchCalls is how many of a batcher's calls are under way at once. Redis runs one at a time, while
	// this process makes and reads the others. With 4 of them Redis waited for large calls.
	BatchCalls = 5
	// callSpacing is how long a call waits for another one to end, so that it takes along what
	// arrives meanwhile. A Redis nearby answers in a fraction of it. If the latest call takes
	// longer, the next one does not wait for it.
	callSpacing = 250 * time.Microsecond
	// maxQueueWait bounds the wait until a call takes a check along, while the store answers other
	// calls. After that the rule's on_redis_failure decides. If the store is silent, no caller waits
	// that long: see CallerPatience.
	maxQueueWait = 250 * time.Millisecond
)

// The wait for an answer.
const (
	// CallerPatience is how long a caller waits while the store shows no sign of life. Then its
	// rule's fallback decides, because a later answer is worth little to the caller. The call
	// itself may go on until Deadline.
	CallerPatience = 40 * time.Millisecond
	// aliveWithin is the time within which a store that is slow, not silent, has answered a call.
	aliveWithin = CallerPatience * 3 / 4
	// checkEvery is how often a waiting caller checks whether the store has become silent.
	checkEvery = CallerPatience / 4
	// SilentPatience is how long a caller waits while the store is silent. It is short, but not 0:
	// this process may have had no CPU until now to read the answers.
	SilentPatience = CallerPatience / 10
)

// Calls.
const (
	// Deadline bounds one store call from its sending. A stalled store must not cost more than
	// a check is worth waiting for.
	Deadline = storeclock.MaxFlight / 5
	// learnDeadline bounds learning the store's contents, which takes three round trips.
	learnDeadline = 2 * Deadline
	// HeardDeadline bounds telling the store that the region is heard. With a Redis Cluster the
	// first time takes a quarter of a second.
	HeardDeadline = 5 * Deadline
	// ApplyDeadline bounds the application of one part of a directive, some hundred changes.
	ApplyDeadline = time.Second
	// starvedAfter is how long after its deadline a call must end to count as ended late. This
	// process then had no CPU to end it sooner, nor to read a reply.
	starvedAfter = Deadline / 5
	// starvedFor bounds that excuse. A store that has answered nothing for so long is unwell, even
	// if this process lacks CPU.
	starvedFor = time.Second
	// maxCalls bounds the calls under way, also those that wait for a connection. The batcher has
	// few calls. Each caller that reserves or settles has one of its own.
	maxCalls = 1024
)

// The breaker.
const (
	// The breaker opens after TripAfter failures in a row, however rare calls are, or when half of
	// at least tripSample calls of tripWindow failed.
	TripAfter  = 5
	tripSample = 20
	tripWindow = time.Second
	// The breaker is open for minOpen, and then one trial call is made, and another one each
	// minOpen until one succeeds. The wait doubles, up to MaxOpen, if the store fails again within
	// MaxOpen of the breaker's closing.
	minOpen = 500 * time.Millisecond
	MaxOpen = 5 * time.Second
	// openJitter is the random part of a wait, in percent, so that the daemons of a region do not
	// all try a recovering store at once.
	openJitter = 20
)

// Retries.
const (
	// retryCost is the number of calls that earn one retry: a tenth of the calls may be made twice.
	// So a store in trouble is not asked twice as much as a healthy one.
	retryCost = 10
	// maxRetriesSaved is how many retries may be saved up: several times what all workers of a
	// batcher need when the contents of the store change.
	maxRetriesSaved = 32
)
