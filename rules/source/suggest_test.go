package source

import "testing"

// TestEditDistanceNearby: within maxEdits the distance is the true one, and far is
// far.
func TestEditDistanceNearby(t *testing.T) {
	for pair, want := range map[[2]string]int{
		{"", ""}: 0, {"a", ""}: 1, {"", "ab"}: 2, {"", "abc"}: 3, {"abc", ""}: 3,
		{"rules", "rules"}: 0, {"rulse", "rules"}: 1, {"rule", "rules"}: 1, {"xrules", "rules"}: 1,
		{"orders-por", "orders-pro"}: 1, {"ordrs-por", "orders-pro"}: 2, {"abcdef", "badcfe"}: 3,
		{"capcity", "capacity"}: 1, {"kitten", "sitting"}: 3, {"aaaaaaaa", "bbbbbbbb"}: 3,
		{"xyabcdefgh", "abcdefgh"}: 2, {"abcdefgh", "abcdefghxy"}: 2, {"abcdefghij", "cdefghijkl"}: 3,
	} {
		if got := editDistance(pair[0], pair[1]); got != want {
			t.Errorf("%q and %q: %d, want %d", pair[0], pair[1], got, want)
		}
		if got := editDistance(pair[1], pair[0]); got != want {
			t.Errorf("%q and %q: %d, want %d", pair[1], pair[0], got, want)
		}
	}
}
