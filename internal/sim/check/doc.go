// Package check searches, breadth first, all that can happen to the machines of
// package budget and the stores of package limit in small worlds: two or three
// regions, one key of a tiny limit, a bounded number of faults. It drives the code
// that ships. In every state it asserts what docs/protocol.md promises: that shares
// and liabilities sum to the limit at most, and that no more can be spent than an
// ideal bucket for the whole world holds; and, from states that it has reached, that
// the world recovers when nothing fails any more.
//
// Time passes in steps of a quantum, in which every machine is ticked once on a
// clock of its own rate. Between two steps come the events: messages delivered, lost,
// held back, repeated or overtaken, commits, crashes, flushes, cuts, leaders that die
// or linger. Faults are drawn from a budget; everything else is free. Who gets how
// much of the limit is up to the environment, not to the shipped division
// (budget.Leader.DivideBy), so that safety is shown for any sequence of moves.
//
// Two states are one if their canonical forms are equal (budget.Canon). What the
// ideal bucket holds is not part of the form: a state is searched again only if it is
// reached with less in it.
package check
