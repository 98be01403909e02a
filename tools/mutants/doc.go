// Command mutants changes single places of the shipped code at random, as a stranger would, and
// runs the tests on each change. It prints which test fails, and which changes no test sees.
//
//	go run -C tools ./mutants -n 60 -seed 1
//
// A change is one of these: a comparison that includes or excludes its border, or is turned round;
// "and" in place of "or"; a number that is one larger, or twice as large; a condition that holds
// always or never; a call that is left out. Lines that only log, count or word an error are left
// alone. The changed copy is compiled beside the rest of the module (go build -overlay), so the
// tree stays as it is.
//
// A test that fails runs once more alone. If it passes then, the change is neither caught nor
// survived: "once" says so.
//
// A change that survives is not yet a fault: another line may keep the promise, or the line may
// have nothing to do with it. docs/mutants.md has the reason for each survivor of the last run.
package main
