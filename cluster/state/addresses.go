package state

import (
	"fmt"

	raftlogv1 "aliquot/proto/raftlog/v1"
)

const (
	// MaxVoters is the largest number of voters: more than nine only make commits slower.
	MaxVoters = 9
	// MaxServers is the largest number of servers in Raft's configuration: MaxVoters voters and as many that are
	// joining.
	MaxServers = 2 * MaxVoters
	// MaxServerID is the length of the longest server id: a node id of 64 bytes, a slash, and an instance id of 8.
	MaxServerID = 64 + 1 + 8
	// MaxAddressBytes is the length of the longest address: a host name, a colon and a port.
	MaxAddressBytes = 255 + 6
)

// ServerAddress is the address at which a coordinator serves RPC.
type ServerAddress struct {
	// Server is the id of its Raft server.
	Server string
	// RPC is host:port.
	RPC string
}

// EncodeAddresses returns the addresses as the log has them.
func EncodeAddresses(addresses []ServerAddress) []*raftlogv1.ServerAddress {
	out := make([]*raftlogv1.ServerAddress, len(addresses))
	for i, a := range addresses {
		out[i] = &raftlogv1.ServerAddress{Server: a.Server, Rpc: a.RPC}
	}
	return out
}

func decodeAddresses(in []*raftlogv1.ServerAddress) ([]ServerAddress, error) {
	if len(in) > MaxServers {
		return nil, fmt.Errorf("%w: addresses of %d servers, at most %d", ErrInvalidArgument, len(in), MaxServers)
	}
	out := make([]ServerAddress, len(in))
	for i, a := range in {
		out[i] = ServerAddress{a.GetServer(), a.GetRpc()}
		switch {
		case a.GetServer() == "" || len(a.GetServer()) > MaxServerID || a.GetRpc() == "" || len(a.GetRpc()) > MaxAddressBytes:
			return nil, fmt.Errorf("%w: server %q at %q", ErrInvalidArgument, shortName(a.GetServer()), shortName(a.GetRpc()))
		case i > 0 && out[i].Server <= out[i-1].Server:
			return nil, fmt.Errorf("%w: the address of server %q is out of order", ErrInvalidArgument, a.GetServer())
		}
	}
	return out, nil
}

func (s *State) setAddresses(c *raftlogv1.SetAddresses) (changed bool, err error) {
	addresses, err := decodeAddresses(c.GetAddresses())
	if err != nil {
		return false, err
	}
	s.Addresses = addresses
	return true, nil
}
