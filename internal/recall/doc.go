// Package recall decides what a regional daemon admits while its store does not answer.
//
// The daemon remembers the store's latest answer about each key, less what it has asked the store for
// since, and continues from there. A key that the daemon has not asked about for as long as its limit
// takes to fill is full. What the daemon admits this way is owed: the next call of the key that the
// store answers takes it off the record.
//
// A Table is a lower bound of what the store's record holds, less what is owed, whatever became of the
// calls that were sent:
//
//   - A cost is charged when its call leaves (Sent). The answer says what is left after the call
//     (Answered), or that nothing was charged (NotSent).
//   - The store may still decide a call without an answer until its deadline. The cost of such a call
//     stays charged (Lost) until then, and comes off what was left then. The answer to a later call shows
//     what became of it.
//   - The caller of such a call may be admitted from memory. The charge that remains covers it. The
//     cost is owed only if the store turns out not to have taken it, or if that cannot be known.
//   - Earnings count from the receipt of an answer, at the slowest rate in force since.
//   - The store takes off at most what its bucket can lack. A bucket that was full all the time would
//     have earned again what was spent of it.
//
// So the debt never exceeds what the record holds, and no client gains by an outage.
//
// Worked number: a bucket of 100 tokens that earns 10 a second. The store answered 60 at 0 s; a call
// for 1 left at 1.9 s and was not answered. At 2 s there are 60 + 20 - 1 = 79, and the caller of that
// call may have the one that is charged. It takes 5 more: 74 are left and 6 are owed. The store is
// back at 3 s. It took the lost call, so its record holds 60 + 30 - 1 = 89, less 6: 83. The clients got
// 6, and 7 were taken, because it could not be known that the store had taken the lost call.
package recall
