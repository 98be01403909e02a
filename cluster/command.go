package cluster

import (
	"errors"
	"fmt"

	"google.golang.org/protobuf/proto"

	"aliquot/budget"
	raftlogv1 "aliquot/proto/raftlog/v1"
)

// commandFormat is the only format of log entries so far.
const commandFormat = 1

// MaxCommandBytes bounds one log entry: the largest rules file (4 MiB) and room
// for its envelope. Everything else stays far below it, see planEntryBytes.
const MaxCommandBytes = 4<<20 + 64<<10

// encodeCommand stamps the format and marshals, the same bytes for the same value.
func encodeCommand(cmd *raftlogv1.Command) ([]byte, error) {
	if cmd.GetKind() == nil {
		return nil, fmt.Errorf("%w: a command without a kind", ErrInvalidArgument)
	}
	cmd.Format = commandFormat
	data, err := proto.MarshalOptions{Deterministic: true}.Marshal(cmd)
	if err != nil {
		return nil, fmt.Errorf("cluster: encode command: %w", err)
	}
	if len(data) > MaxCommandBytes {
		return nil, fmt.Errorf("%w: %d bytes, at most %d", ErrTooLarge, len(data), MaxCommandBytes)
	}
	return data, nil
}

// decodeCommand is strict: what this version cannot read whole it must not apply in
// part, or its state would diverge from that of the nodes that can.
func decodeCommand(data []byte) (*raftlogv1.Command, error) {
	cmd := &raftlogv1.Command{}
	if err := proto.Unmarshal(data, cmd); err != nil {
		return nil, fmt.Errorf("undecodable: %w", err)
	}
	if cmd.GetFormat() != commandFormat {
		return nil, fmt.Errorf("format %d is unknown to this version, which reads %d", cmd.GetFormat(), commandFormat)
	}
	if cmd.GetKind() == nil || len(cmd.ProtoReflect().GetUnknown()) > 0 {
		return nil, errors.New("a kind of command unknown to this version")
	}
	return cmd, nil
}

func encodeShares(shares []budget.Share) []*raftlogv1.Share {
	out := make([]*raftlogv1.Share, len(shares))
	for i, s := range shares {
		out[i] = &raftlogv1.Share{Rate: s.Rate, Burst: s.Burst}
	}
	return out
}

// decodeShares is nil for an empty list: the entry goes.
func decodeShares(in []*raftlogv1.Share) []budget.Share {
	if len(in) == 0 {
		return nil
	}
	out := make([]budget.Share, len(in))
	for i, s := range in {
		out[i] = decodeShare(s)
	}
	return out
}

func decodeShare(s *raftlogv1.Share) budget.Share {
	return budget.Share{Rate: s.GetRate(), Burst: s.GetBurst()}
}

func encodeEntry(e budget.Entry) *raftlogv1.Liabilities {
	return &raftlogv1.Liabilities{Rule: e.Key.Rule, Hash: e.Key.Hash[:], Shares: encodeShares(e.Shares)}
}

func decodeEntry(l *raftlogv1.Liabilities) (budget.Entry, error) {
	if len(l.GetHash()) != len(budget.KeyID{}.Hash) {
		return budget.Entry{}, fmt.Errorf("%w: a key hash of %d bytes", budget.ErrBadPlan, len(l.GetHash()))
	}
	key := budget.KeyID{Rule: l.GetRule(), Hash: [16]byte(l.GetHash())}
	return budget.Entry{Key: key, Shares: decodeShares(l.GetShares())}, nil
}

// encodePlan is one log entry of a plan.
func encodePlan(p budget.Plan) *raftlogv1.CommitPlan {
	out := &raftlogv1.CommitPlan{Epoch: p.Epoch}
	for _, e := range p.Changes {
		out.Changes = append(out.Changes, encodeEntry(e))
	}
	for _, r := range p.InitialRedisEpochs {
		out.InitialRedisEpochs = append(out.InitialRedisEpochs,
			&raftlogv1.InitialRedisEpoch{Region: uint32(r.Region), RedisEpoch: r.RedisEpoch})
	}
	return out
}

func decodePlan(c *raftlogv1.CommitPlan) (budget.Plan, error) {
	p := budget.Plan{Epoch: c.GetEpoch()}
	for _, l := range c.GetChanges() {
		e, err := decodeEntry(l)
		if err != nil {
			return budget.Plan{}, err
		}
		p.Changes = append(p.Changes, e)
	}
	for _, r := range c.GetInitialRedisEpochs() {
		p.InitialRedisEpochs = append(p.InitialRedisEpochs,
			budget.InitialRedisEpoch{Region: int(r.GetRegion()), RedisEpoch: r.GetRedisEpoch()})
	}
	return p, nil
}

func encodeRegions(regions []budget.RegionConfig) []*raftlogv1.Region {
	out := make([]*raftlogv1.Region, len(regions))
	for i, r := range regions {
		out[i] = &raftlogv1.Region{
			Name:                r.Name,
			Floor:               &raftlogv1.Share{Rate: r.Floor.Rate, Burst: r.Floor.Burst},
			InitialRedisEpoch:   r.InitialRedisEpoch,
			DeclaredAtBootstrap: r.DeclaredAtBootstrap,
			Weight:              r.Weight,
			Told:                &raftlogv1.Share{Rate: r.Told.Rate, Burst: r.Told.Burst},
			Low:                 &raftlogv1.Share{Rate: r.Low.Rate, Burst: r.Low.Burst},
			FloorVersion:        r.FloorVersion,
			Joined:              r.Joined,
			Fenced:              r.Fenced,
		}
	}
	return out
}

func decodeRegions(in []*raftlogv1.Region) []budget.RegionConfig {
	out := make([]budget.RegionConfig, len(in))
	for i, r := range in {
		out[i] = budget.RegionConfig{
			Name:                r.GetName(),
			Floor:               decodeShare(r.GetFloor()),
			InitialRedisEpoch:   r.GetInitialRedisEpoch(),
			DeclaredAtBootstrap: r.GetDeclaredAtBootstrap(),
			Weight:              r.GetWeight(),
			Told:                decodeShare(r.GetTold()),
			Low:                 decodeShare(r.GetLow()),
			FloorVersion:        r.GetFloorVersion(),
			Joined:              r.GetJoined(),
			Fenced:              r.GetFenced(),
		}
	}
	return out
}
