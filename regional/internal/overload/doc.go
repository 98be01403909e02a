// Package overload bounds what connections bring. The door before them lets a daemon read what it can
// decide and refuses the rest early, the throttle slows down clients that get nothing but denials, and
// the count of open calls bounds what clients hold open.
package overload
