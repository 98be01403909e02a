package memory

import (
	"testing"

	"aliquot/limit"
	"aliquot/lua"
	"aliquot/regional/store/storetest"
)

var (
	key, keyOf         = storetest.Key, storetest.KeyOf
	coldView, viewOf   = storetest.ColdView, storetest.ViewOf
	bucket, one, admit = storetest.Bucket, storetest.One, storetest.Admit
)

// takeOne takes whole tokens of one limit, and returns whether they were admitted and the outcome.
func takeOne(t *testing.T, s *Store, epoch, key string, cost int64, v limit.View) (bool, limit.Outcome) {
	t.Helper()
	got, _, err := s.Take(t.Context(), epoch, one(key, cost, v))
	if err != nil {
		t.Fatal(err)
	}
	return got[0].Allowed, got[0].Limits[0]
}

// applyOne applies one change of a share, and returns what became of it.
func applyOne(t *testing.T, s *Store, epoch, key string, c limit.Change) limit.Applied {
	t.Helper()
	got, _, err := s.Apply(t.Context(), epoch, []lua.Change{{Key: key, Change: c}})
	if err != nil {
		t.Fatal(err)
	}
	return got[0]
}
