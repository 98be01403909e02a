package store

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/redis/go-redis/v9"

	"aliquot/lua"
)

// Settings are what one server of a store does with its memory and its disk, as its INFO says.
type Settings struct {
	// Server is host:port.
	Server string `json:"server"`
	// EvictionPolicy is what the server does when its memory is full; empty if it does not say.
	EvictionPolicy string `json:"eviction_policy"`
	// AppendOnly: it keeps a log of its writes on its disk.
	AppendOnly bool `json:"append_only"`
	// Snapshots is how many snapshots it has written to its disk since its start.
	Snapshots int `json:"snapshots"`
	// Hz is how many times a second it drops keys that have ended; 0 if it does not say.
	Hz int `json:"hz"`
}

// Settings asks the server for its settings. It returns one element.
func (s *Redis) Settings(ctx context.Context) ([]Settings, error) {
	client := s.client()
	one, err := settingsOf(ctx, client, client.Options().Addr)
	return []Settings{one}, err
}

// Settings asks the primary of each slot for its settings. Their order is that of their addresses.
func (s *Cluster) Settings(ctx context.Context) ([]Settings, error) {
	var out []Settings
	for owner := range s.nodes.primaries() {
		one, err := settingsOf(ctx, owner.queries, owner.addr)
		if err != nil {
			return nil, err
		}
		out = append(out, one)
	}
	slices.SortFunc(out, func(a, b Settings) int { return strings.Compare(a.Server, b.Server) })
	return out, nil
}

func settingsOf(ctx context.Context, client redis.Cmdable, server string) (Settings, error) {
	pipe := client.Pipeline() // not CONFIG GET, which few users are allowed to call
	memory, persistence, process := pipe.Info(ctx, "memory"), pipe.Info(ctx, "persistence"), pipe.Info(ctx, "server")
	if _, err := pipe.Exec(ctx); err != nil {
		return Settings{}, fmt.Errorf("store: INFO of %s: %w", server, err)
	}
	return Settings{
		Server: server, EvictionPolicy: lua.EvictionPolicy(memory.Val()),
		AppendOnly: lua.AppendOnly(persistence.Val()), Snapshots: lua.Snapshots(persistence.Val()),
		Hz: lua.Hz(process.Val()),
	}, nil
}
