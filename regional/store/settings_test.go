package store

import (
	"reflect"
	"testing"

	"aliquot/lua/redistest"
)

// Settings says of each server whether it evicts keys, whether it writes to its disk, and how often it drops keys that have ended.
func TestSettings(t *testing.T) {
	plain := redistest.Start(t)
	evicts := redistest.Start(t, "--maxmemory-policy", "allkeys-lru", "--hz", "100")
	if err := evicts.Client(t).ConfigSet(t.Context(), "appendonly", "yes").Err(); err != nil {
		t.Fatal(err)
	}
	for server, want := range map[*redistest.Server]Settings{
		plain:  {Server: plain.Addr, EvictionPolicy: "noeviction", Hz: 10},
		evicts: {Server: evicts.Addr, EvictionPolicy: "allkeys-lru", AppendOnly: true, Hz: 100},
	} {
		got, err := openRedis(t, server).Settings(t.Context())
		if err != nil || !reflect.DeepEqual(got, []Settings{want}) {
			t.Errorf("settings %+v, %v; want %+v", got, err, want)
		}
	}
	plain.Kill()
	if _, err := openRedis(t, plain).Settings(t.Context()); err == nil {
		t.Error("a server that does not run has settings")
	}
}
