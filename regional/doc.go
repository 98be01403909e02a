// Package regional is the regional daemon. It answers checks within its own region and enforces the
// region's shares in the region's store. It reports the usage to the coordinators and applies the
// shares that they move. Without coordinators it answers without end, and without its store by each
// rule's on_redis_failure.
//
// The walk of one check: service (validate) -> rules (match) -> limiter (one store call for all
// limits) -> answer. The walk of one budget: reporter -> Hello or Report -> Directive -> authority
// -> store.Apply -> the view of the next check.
package regional
