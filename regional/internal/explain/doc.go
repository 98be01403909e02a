// Package explain turns decisions into answers. It names the denials and remembers the latest of
// them, and explains them and the decisions that other requests would get now.
package explain
