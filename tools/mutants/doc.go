// Command mutants changes single places of the shipped code at random, as a stranger would, and
// runs the tests on each change. It prints which test fails first and after how long, and which
// changes no test sees.
//
//	go run -C tools ./mutants -n 60 -seed 1
//
// A change is one of these: a comparison that includes or excludes its border, or is turned round;
// "and" in place of "or"; a number that is one larger, or twice as large; min in place of max; a
// condition or a case that holds always or never; a deadline, a call or an assignment that is left
// out. Lines that only log, count or word an error are left alone, and without -all so are the
// files that do not guard the promise (see guards). The changed copy is compiled beside the rest of
// the module (go build -overlay), so the tree stays as it is.
//
// The tests of the changed file run first, then the quick ones of its package, then the rest of the
// package, then packages that use it. The first failure ends the trial. How long a test takes is
// remembered in -cache.
//
// A test that fails runs once more alone, on the change and on the code without it. If it passes
// on the change then, the change is listed as "once": neither caught nor survived.
//
// A change that survives is not yet a fault: another line may keep the promise, or the line may
// have nothing to do with it. docs/benchmarks/mutants.md has the reason for each survivor.
package main
