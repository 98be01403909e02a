// Package compare drives limiters that hold one limit over several regions with the
// same requests in the same simulated world, and measures what each admits: Aliquot,
// as the code that ships, an exact bucket that is everywhere at once, and the ways in
// which others do it. docs/explanation/comparison.md shows the table and says what it means.
//
// Everything here is deterministic: the same seed is the same run, bit for bit.
package compare
