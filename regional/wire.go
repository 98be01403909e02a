package regional

import (
	"fmt"
	"math"
	"time"

	"aliquot/budget"
	aliquotv1 "aliquot/proto/aliquot/v1"
	"aliquot/regional/internal/charge"
	"aliquot/regional/internal/policy"
)

// Conversion of LeaseService's messages between the state machine's types and the wire's.

func helloRequest(region string, h budget.Hello) *aliquotv1.HelloRequest {
	out := &aliquotv1.HelloRequest{
		Shard: h.Shard, Region: region, Incarnation: h.Incarnation, RedisEpoch: h.RedisEpoch,
		Nonce: h.Nonce, RulesVersion: h.RulesVersion, RulesEnded: h.RulesEnded, UnreachedSlots: h.Unreached.Bytes(),
		Held:   make([]*aliquotv1.HeldKey, len(h.Held)),
		Daemon: uint64(h.Daemon), Storeless: h.Storeless, Alone: h.Alone, Others: daemonsOut(h.Others),
	}
	for i, k := range h.Held {
		out.Held[i] = &aliquotv1.HeldKey{Key: keyOut(k.Key), Gen: genOut(k.Gen), Share: shareOut(k.Share), Limit: limitOut(k.Limit)}
	}
	return out
}

func reportRequest(region string, r budget.Report) *aliquotv1.ReportRequest {
	out := &aliquotv1.ReportRequest{
		Shard: r.Shard, Region: region, Epoch: r.Epoch, Session: r.Session, Seq: r.Seq, TSend: int64(r.TSend),
		Ack: r.Ack, RulesVersion: r.RulesVersion, RulesEnded: r.RulesEnded, PaceMicros: r.Pace.Microseconds(), Opening: r.Opening, Contents: r.Contents, Keys: make([]*aliquotv1.KeyReport, len(r.Keys)),
		UnreachedSlots: r.Unreached.Bytes(),
		Daemon:         uint64(r.Daemon), Storeless: r.Storeless, Alone: r.Alone, Others: daemonsOut(r.Others),
	}
	for i := range r.Keys {
		k := &r.Keys[i]
		out.Keys[i] = &aliquotv1.KeyReport{
			Key: keyOut(k.Key), Gen: genOut(k.Gen), Share: shareOut(k.Share),
			AdmittedMicro: k.Admitted, OfferedMicro: k.Offered, ReleasedMicro: k.Released,
			TokensMicro: k.Tokens, Limit: limitOut(k.Limit), Rejecting: k.Rejecting, Cold: k.Cold,
			IdleNs: int64(k.Idle), GapNs: int64(k.Gap), InUse: k.InUse, Label: k.Label, RefundedMicro: k.Refunded,
		}
	}
	return out
}

// directiveIn converts the answer to a report.
func directiveIn(region int, in *aliquotv1.ReportResponse) (budget.Directive, error) {
	actions, err := actionsIn(in.GetActions())
	return budget.Directive{
		Shard: in.GetShard(), Region: region, Epoch: in.GetEpoch(), Session: in.GetSession(), Seq: in.GetSeq(),
		TSend: budget.Instant(in.GetTSend()), Renew: in.GetRenew(), Actions: actions, Others: daemonsIn(in.GetOthers()),
	}, err
}

func daemonsOut(ids []budget.DaemonID) []uint64 {
	out := make([]uint64, len(ids))
	for i, id := range ids {
		out[i] = uint64(id)
	}
	return out
}

// daemonsIn converts the ids of daemons, at most budget.MaxDaemons.
func daemonsIn(ids []uint64) []budget.DaemonID {
	var out []budget.DaemonID
	for _, id := range ids[:min(len(ids), budget.MaxDaemons)] {
		out = append(out, budget.DaemonID(id))
	}
	return out
}

// helloIn converts the answer to a Hello.
func helloIn(region int, in *aliquotv1.HelloResponse) (budget.HelloOK, error) {
	actions, err := actionsIn(in.GetActions())
	ok := budget.HelloOK{
		Shard: in.GetShard(), Region: region, Epoch: in.GetEpoch(), Session: in.GetSession(), Nonce: in.GetNonce(), Actions: actions,
		Watermark: budget.Gen{Epoch: in.GetWatermark().GetEpoch(), Counter: in.GetWatermark().GetCounter()},
	}
	if err == nil && (!ok.Watermark.Valid() || !(budget.Gen{Epoch: ok.Epoch}).Valid()) {
		err = fmt.Errorf("regional: epoch %d or watermark %+v out of range", ok.Epoch, ok.Watermark)
	}
	return ok, err
}

// clusterIn converts the cluster's configuration. It does not check it.
func clusterIn(in *aliquotv1.RegionConfig) policy.Cluster {
	c := policy.Cluster{
		ClusterID: in.GetClusterId(), Version: in.GetConfigVersion(),
		Lease:     time.Duration(in.GetLeaseMicros()) * time.Microsecond,
		LeaseWait: time.Duration(in.GetLeaseWaitMicros()) * time.Microsecond,
		RhoPPM:    in.GetRhoPpm(), InitialEpoch: in.GetInitialRedisEpoch(), Secret: in.GetHashSecret(),
	}
	for _, r := range in.GetRegions() {
		c.Regions = append(c.Regions, policy.Region{
			Name: r.GetName(), Floor: shareIn(r.GetFloor()), Low: shareIn(r.GetLow()), FloorVersion: r.GetFloorVersion(),
		}.Normal())
	}
	return c
}

// actionsIn converts actions. It refuses all of them if one has a value that no leader sends.
func actionsIn(in []*aliquotv1.Action) ([]budget.Action, error) {
	out := make([]budget.Action, len(in))
	for i, a := range in {
		key, err := keyIn(a.GetKey())
		if err != nil {
			return nil, err
		}
		share := shareIn(a.GetShare())
		if share.Rate < 0 || share.Rate > budget.Unit || share.Burst < 0 || share.Burst > budget.Unit {
			return nil, fmt.Errorf("regional: action with share %+v out of range", share)
		}
		if a.GetGrantedMicro() < 0 || a.GetFrom() < 0 {
			return nil, fmt.Errorf("regional: action that grants %d from window %d on", a.GetGrantedMicro(), a.GetFrom())
		}
		gen := budget.Gen{Epoch: a.GetGen().GetEpoch(), Counter: a.GetGen().GetCounter()}
		if !gen.Valid() {
			return nil, fmt.Errorf("regional: action with generation %+v out of range", gen)
		}
		out[i] = budget.Action{
			Key: key, Gen: gen,
			Share: share, Granted: a.GetGrantedMicro(), Cold: a.GetCold(), From: a.GetFrom(),
			Limit: limitIn(a.GetLimit()),
		}
	}
	return out, nil
}

func keyIn(in *aliquotv1.KeyId) (budget.KeyID, error) {
	k := budget.KeyID{Rule: in.GetRule()}
	if copy(k.Hash[:], in.GetHash()) != len(k.Hash) || len(in.GetHash()) != len(k.Hash) {
		return k, fmt.Errorf("regional: key hash of %d bytes; it must have %d", len(in.GetHash()), len(k.Hash))
	}
	return k, nil
}

func keyOut(k budget.KeyID) *aliquotv1.KeyId {
	return &aliquotv1.KeyId{Rule: k.Rule, Hash: k.Hash[:]}
}

func genOut(g budget.Gen) *aliquotv1.Generation {
	return &aliquotv1.Generation{Epoch: g.Epoch, Counter: g.Counter}
}

func shareOut(s budget.Share) *aliquotv1.Share {
	return &aliquotv1.Share{Rate: s.Rate, Burst: s.Burst}
}

func shareIn(in *aliquotv1.Share) budget.Share {
	return budget.Share{Rate: in.GetRate(), Burst: in.GetBurst()}
}

func limitOut(l budget.KeyLimit) *aliquotv1.KeyLimit {
	return &aliquotv1.KeyLimit{
		CapacityMicro: l.Capacity, RateMicro: l.Rate, RateFrac: l.RateFrac,
		Placement: aliquotv1.Placement(l.Placement), TailMicros: l.Tail.Microseconds(), Algorithm: uint32(l.Algorithm),
	}
}

// limitIn converts a limit. A limit out of range becomes the zero value, an unknown limit.
func limitIn(in *aliquotv1.KeyLimit) budget.KeyLimit {
	if tail := in.GetTailMicros(); tail < 0 || tail > budget.MaxTail.Microseconds() {
		return budget.KeyLimit{}
	}
	l := budget.KeyLimit{
		Tail:     time.Duration(in.GetTailMicros()) * time.Microsecond,
		Capacity: in.GetCapacityMicro(), Rate: in.GetRateMicro(), RateFrac: in.GetRateFrac(),
		Placement: budget.Placement(in.GetPlacement()),
		Algorithm: uint8(min(in.GetAlgorithm(), math.MaxUint8)),
	}
	if !l.Placement.Valid() || l.Capacity < 0 || l.Rate < 0 || l.RateFrac < 0 || !charge.WholeBucket(l).Valid() {
		return budget.KeyLimit{}
	}
	return l
}
