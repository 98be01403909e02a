package state

import (
	"errors"
	"fmt"

	"google.golang.org/protobuf/proto"

	"aliquot/budget"
	raftlogv1 "aliquot/proto/raftlog/v1"
)

// Formats of log entries. Format 1 was never released.
const (
	commandFormat = 2
	// promotionFormat is that of a promotion which may make a version: a node of an earlier version stops at it,
	// and promotions of format 2 are applied as they were.
	promotionFormat = 3
)

// formatOf returns the format in which a command is written.
func formatOf(cmd *raftlogv1.Command) uint32 {
	if cmd.GetEndRollout().GetOutcome() == raftlogv1.EndRollout_OUTCOME_PROMOTED {
		return promotionFormat
	}
	return commandFormat
}

// MaxCommandBytes is the size of the largest log entry: the largest rules file (4 MiB) and its envelope. All other
// commands are far smaller; see planEntryBytes.
const MaxCommandBytes = 4<<20 + 64<<10

// EncodeCommand sets the format and returns the bytes of a command, the same bytes for the same command. Errors are
// ErrInvalidArgument for a command without a kind, and ErrTooLarge.
func EncodeCommand(cmd *raftlogv1.Command) ([]byte, error) {
	if cmd.GetKind() == nil {
		return nil, fmt.Errorf("%w: a command without a kind", ErrInvalidArgument)
	}
	cmd.Format = formatOf(cmd)
	data, err := proto.MarshalOptions{Deterministic: true}.Marshal(cmd)
	if err != nil {
		return nil, fmt.Errorf("cluster: encode command: %w", err)
	}
	if len(data) > MaxCommandBytes {
		return nil, fmt.Errorf("%w: %d bytes, at most %d", ErrTooLarge, len(data), MaxCommandBytes)
	}
	return data, nil
}

// DecodeCommand returns the command that the bytes hold. It is strict: a node that applied a command in part would
// diverge from nodes of a later version, which can read all of it.
func DecodeCommand(data []byte) (*raftlogv1.Command, error) {
	cmd := &raftlogv1.Command{}
	if err := proto.Unmarshal(data, cmd); err != nil {
		return nil, fmt.Errorf("undecodable: %w", err)
	}
	if format := cmd.GetFormat(); format != commandFormat && format != formatOf(cmd) {
		return nil, fmt.Errorf("format %d is unknown to this version, which reads %d and %d", format, commandFormat, promotionFormat)
	}
	if cmd.GetKind() == nil || len(cmd.ProtoReflect().GetUnknown()) > 0 {
		return nil, errors.New("a kind of command unknown to this version")
	}
	return cmd, nil
}

func decodeShare(s *raftlogv1.Share) budget.Share {
	return budget.Share{Rate: s.GetRate(), Burst: s.GetBurst()}
}

func encodeLiabilities(e budget.Entry) *raftlogv1.Liabilities {
	out := &raftlogv1.Liabilities{Rule: e.Key.Rule, Hash: e.Key.Hash[:]}
	if n := len(e.Shares); n > 0 {
		parts := make([]uint32, 2*n)
		out.Rates, out.Bursts = parts[:n:n], parts[n:]
		for i, s := range e.Shares {
			out.Rates[i], out.Bursts[i] = uint32(s.Rate), uint32(s.Burst)
		}
	}
	return out
}

func decodeLiabilities(l *raftlogv1.Liabilities) (budget.Entry, error) {
	if len(l.GetHash()) != len(budget.KeyID{}.Hash) {
		return budget.Entry{}, fmt.Errorf("%w: a key hash of %d bytes", budget.ErrBadPlan, len(l.GetHash()))
	}
	key := budget.KeyID{Rule: l.GetRule(), Hash: [16]byte(l.GetHash())}
	shares, err := decodeShares(l.GetRates(), l.GetBursts())
	return budget.Entry{Key: key, Shares: shares}, err
}

// decodeShares returns nil for no shares, which removes the entry.
func decodeShares(rates, bursts []uint32) ([]budget.Share, error) {
	if len(rates) != len(bursts) {
		return nil, fmt.Errorf("%w: %d rates and %d bursts", budget.ErrBadPlan, len(rates), len(bursts))
	}
	if len(rates) == 0 {
		return nil, nil
	}
	out := make([]budget.Share, len(rates))
	for i := range out {
		if rates[i] > budget.Unit || bursts[i] > budget.Unit {
			return nil, fmt.Errorf("%w: a share above the whole", budget.ErrBadPlan)
		}
		out[i] = budget.Share{Rate: int32(rates[i]), Burst: int32(bursts[i])}
	}
	return out, nil
}

// EncodePlan returns a plan as one log entry has it.
func EncodePlan(p budget.Plan) *raftlogv1.CommitPlan {
	out := &raftlogv1.CommitPlan{Epoch: p.Epoch}
	for _, e := range p.Changes {
		out.Changes = append(out.Changes, encodeLiabilities(e))
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
		e, err := decodeLiabilities(l)
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

// EncodeRegions returns the regions of a configuration as the log has them.
func EncodeRegions(regions []budget.RegionConfig) []*raftlogv1.Region {
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

// planEntryBytes is the size of the largest log entry of a plan. Raft's main goroutine both appends entries and
// sends heartbeats, so no entry should take long to send and to sync.
const planEntryBytes = 256 << 10

// SplitPlan splits a plan into parts that fit into one log entry each. It overestimates the encoded size.
func SplitPlan(plan budget.Plan) []budget.Plan {
	const (
		perKey   = 40 // rule, hash, tags and lengths
		perShare = 6  // two varints of up to 21 bits
	)
	var parts []budget.Plan
	part := budget.Plan{Epoch: plan.Epoch, InitialRedisEpochs: plan.InitialRedisEpochs}
	size := 0
	for _, e := range plan.Changes {
		cost := perKey + perShare*len(e.Shares)
		if size+cost > planEntryBytes && len(part.Changes) > 0 {
			parts = append(parts, part)
			part, size = budget.Plan{Epoch: plan.Epoch}, 0
		}
		part.Changes = append(part.Changes, e)
		size += cost
	}
	return append(parts, part)
}
