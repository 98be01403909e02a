package store

import (
	"reflect"
	"testing"

	"aliquot/lua/redistest"
)

// Settings says of each server whether it evicts keys and whether it writes to its disk.
func TestSettings(t *testing.T) {
	plain := redistest.Start(t)
	evicts := redistest.Start(t, "--maxmemory-policy", "allkeys-lru")
	if err := evicts.Client(t).ConfigSet(t.Context(), "appendonly", "yes").Err(); err != nil {
		t.Fatal(err)
	}
	for server, want := range map[*redistest.Server]Settings{
		plain:  {Server: plain.Addr, EvictionPolicy: "noeviction"},
		evicts: {Server: evicts.Addr, EvictionPolicy: "allkeys-lru", AppendOnly: true},
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
