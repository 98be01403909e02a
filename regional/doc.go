// Package regional is the regional daemon: it answers checks from its own region
// alone, enforcing the region's budgets in the region's store, reports what was
// used to the coordinators, and applies the budgets they move. It answers for
// ever without coordinators, and without its store by each rule's own choice.
//
// The walk of one check: service (validate) -> rules (match) -> limiter (one store
// call for all limits) -> answer. The walk of one budget: reporter -> Hello or
// Report -> Directive -> authority -> store.Apply -> the next check's view.
package regional
