// Package check searches, breadth first, everything that can happen to the state machines of
// package budget and the stores of package limit in small worlds: two or three regions, one key of
// a tiny limit, and a bounded number of faults. It drives the code that ships. In every state it
// asserts what docs/reference/protocol.md promises: shares and liabilities sum to at most the limit, and no
// more can be spent than an ideal bucket for the whole world holds. From some of the states it also
// asserts that the world recovers when nothing fails any more.
//
// Time passes in steps of a quantum, in which every state machine is ticked once, on a clock with
// its own rate. Between two steps come the events: messages that are delivered, lost, delayed,
// repeated or overtaken, commits, crashes, flushes, cuts, and leaders that die or linger. Faults
// are limited by a budget; everything else is unlimited. The environment, not the shipped division,
// decides which region gets how much of the limit (budget.Leader.DivideBy), so safety is shown for
// any sequence of moves.
//
// Two states are the same if their canonical forms are equal (budget.Canon). The form leaves out
// what the ideal bucket holds: a state is searched again only if it is reached with less in that
// bucket.
package check
