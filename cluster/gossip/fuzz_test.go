package gossip

import "testing"

// FuzzDecodeMeta: what another node says of itself is refused, or is what a node can say.
func FuzzDecodeMeta(f *testing.F) {
	seed, err := Meta{Role: RoleCoordinator, NodeID: "c1", InstanceID: "0000000a", Raft: "127.0.0.1:7401"}.Encode()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(seed)
	f.Add([]byte(`{}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		m, err := DecodeMeta(data)
		if err != nil {
			return
		}
		if again, err := m.Encode(); err == nil {
			if n, err := DecodeMeta(again); err != nil || n != m {
				t.Errorf("%+v becomes %+v, %v", m, n, err)
			}
		}
	})
}
