package leasewire

import (
	"fmt"
	"math"
	"time"

	"aliquot/budget"
	"aliquot/limit"
	aliquotv1 "aliquot/proto/aliquot/v1"
)

// HelloRequest returns a region's Hello as a message.
func HelloRequest(region string, h budget.Hello) *aliquotv1.HelloRequest {
	out := &aliquotv1.HelloRequest{
		Region: region, Incarnation: h.Incarnation, RedisEpoch: h.RedisEpoch,
		Nonce: h.Nonce, RulesVersion: h.Rules.Version, RulesEnded: h.Rules.Ended, UnreachedSlots: h.Unreached.Bytes(),
		Held:   make([]*aliquotv1.HeldKey, len(h.Held)),
		Daemon: uint64(h.Daemon), Storeless: h.Storeless, Alone: h.Alone, Others: Daemons(h.Others),
	}
	for i, k := range h.Held {
		out.Held[i] = &aliquotv1.HeldKey{Key: KeyTo(k.Key), Gen: genToWire(k.Gen), Share: ShareTo(k.Share), Limit: limitToWire(k.Limit)}
	}
	return out
}

// ReportRequest returns a region's report as a message.
func ReportRequest(region string, r budget.Report) *aliquotv1.ReportRequest {
	out := &aliquotv1.ReportRequest{
		Region: region, Epoch: r.Epoch, Session: r.Session, Seq: r.Seq, TSend: int64(r.TSend),
		Ack: r.Ack, RulesVersion: r.Rules.Version, RulesEnded: r.Rules.Ended, PaceMicros: r.Pace.Microseconds(), Opening: r.Opening, Contents: r.Contents, Keys: make([]*aliquotv1.KeyReport, len(r.Keys)),
		UnreachedSlots: r.Unreached.Bytes(),
		Daemon:         uint64(r.Daemon), Storeless: r.Storeless, Alone: r.Alone, Others: Daemons(r.Others),
	}
	for i := range r.Keys {
		k := &r.Keys[i]
		out.Keys[i] = &aliquotv1.KeyReport{
			Key: KeyTo(k.Key), Gen: genToWire(k.Gen), Share: ShareTo(k.Share),
			AdmittedMicro: k.Admitted, OfferedMicro: k.Offered, ReleasedMicro: k.Released,
			TokensMicro: k.Tokens, Limit: limitToWire(k.Limit), Rejecting: k.Rejecting, Cold: k.Cold,
			IdleNs: int64(k.Idle), GapNs: int64(k.Gap), InUse: k.InUse, Label: k.Label, RefundedMicro: k.Refunded,
		}
	}
	return out
}

// DirectiveFrom returns the directive in the answer to a report. region is the index of the region. The
// error names what no leader sends.
func DirectiveFrom(region int, in *aliquotv1.ReportResponse) (budget.Directive, error) {
	actions, err := actionsFromWire(in.GetActions())
	return budget.Directive{
		Region: region, Epoch: in.GetEpoch(), Session: in.GetSession(), Seq: in.GetSeq(),
		TSend: budget.Instant(in.GetTSend()), Renew: in.GetRenew(), Actions: actions, Others: daemonsFromWire(in.GetOthers()),
	}, err
}

// Daemons returns the ids of daemons as a message has them.
func Daemons(ids []budget.DaemonID) []uint64 {
	out := make([]uint64, len(ids))
	for i, id := range ids {
		out[i] = uint64(id)
	}
	return out
}

// HelloOthers returns the other daemons of a region that the answer to a Hello names, and the epoch of the leader that
// knows of them.
func HelloOthers(in *aliquotv1.HelloResponse) (epoch uint64, ids []budget.DaemonID) {
	return in.GetOthersEpoch(), daemonsFromWire(in.GetOthers())
}

// daemonsFromWire converts the ids of daemons, at most budget.MaxDaemons.
func daemonsFromWire(ids []uint64) []budget.DaemonID {
	var out []budget.DaemonID
	for _, id := range ids[:min(len(ids), budget.MaxDaemons)] {
		out = append(out, budget.DaemonID(id))
	}
	return out
}

// HelloAnswerFrom returns the session in the answer to a Hello. region is the index of the region. The
// error names what no leader sends.
func HelloAnswerFrom(region int, in *aliquotv1.HelloResponse) (budget.HelloOK, error) {
	actions, err := actionsFromWire(in.GetActions())
	ok := budget.HelloOK{
		Region: region, Epoch: in.GetEpoch(), Session: in.GetSession(), Nonce: in.GetNonce(), Actions: actions,
		Watermark: budget.Gen{Epoch: in.GetWatermark().GetEpoch(), Counter: in.GetWatermark().GetCounter()},
	}
	if err == nil && (!ok.Watermark.Valid() || !(budget.Gen{Epoch: ok.Epoch}).Valid()) {
		err = fmt.Errorf("regional: epoch %d or watermark %+v out of range", ok.Epoch, ok.Watermark)
	}
	return ok, err
}

// actionsFromWire converts actions. It refuses all of them if one has a value that no leader sends.
func actionsFromWire(in []*aliquotv1.Action) ([]budget.Action, error) {
	out := make([]budget.Action, len(in))
	for i, a := range in {
		key, err := KeyFrom(a.GetKey())
		if err != nil {
			return nil, err
		}
		share := ShareFrom(a.GetShare())
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
			Limit: leaderLimit(a.GetLimit()),
		}
	}
	return out, nil
}

// KeyFrom returns the key of an action. The error says how long its hash is, if that is wrong.
func KeyFrom(in *aliquotv1.KeyId) (budget.KeyID, error) {
	k := budget.KeyID{Rule: in.GetRule()}
	if copy(k.Hash[:], in.GetHash()) != len(k.Hash) || len(in.GetHash()) != len(k.Hash) {
		return k, fmt.Errorf("regional: key hash of %d bytes; it must have %d", len(in.GetHash()), len(k.Hash))
	}
	return k, nil
}

// KeyTo returns a key as a message.
func KeyTo(k budget.KeyID) *aliquotv1.KeyId {
	return &aliquotv1.KeyId{Rule: k.Rule, Hash: k.Hash[:]}
}

func genToWire(g budget.Gen) *aliquotv1.Generation {
	return &aliquotv1.Generation{Epoch: g.Epoch, Counter: g.Counter}
}

// ShareFrom returns a share as the leader sends it, without a check of its range.
func ShareFrom(in *aliquotv1.Share) budget.Share {
	return budget.Share{Rate: in.GetRate(), Burst: in.GetBurst()}
}

// leaderLimit converts a limit. A limit out of range becomes the zero value, an unknown limit.
func leaderLimit(in *aliquotv1.KeyLimit) budget.KeyLimit {
	if tail := in.GetTailMicros(); tail < 0 || tail > budget.MaxTail.Microseconds() {
		return budget.KeyLimit{}
	}
	l := budget.KeyLimit{
		Tail:     time.Duration(in.GetTailMicros()) * time.Microsecond,
		Capacity: in.GetCapacityMicro(), Rate: in.GetRateMicro(), RateFrac: in.GetRateFrac(),
		Placement: budget.Placement(in.GetPlacement()),
		Algorithm: uint8(min(in.GetAlgorithm(), math.MaxUint8)),
	}
	if !l.Placement.Valid() || l.Capacity < 0 || l.Rate < 0 || l.RateFrac < 0 || !wholeBucket(l).Valid() {
		return budget.KeyLimit{}
	}
	return l
}

// wholeBucket returns a limit as one bucket, for a check of its range.
func wholeBucket(l budget.KeyLimit) limit.Bucket {
	return limit.Bucket{Cap: limit.Tokens(l.Capacity), Rate: limit.Rate{Micro: l.Rate, Frac: l.RateFrac}}
}

// SpentTo returns use beside the counters of a session as messages. SpentFrom reads them. An age is
// rounded up, because it says when the use began at the latest.
func SpentTo(spent []budget.Spent) []*aliquotv1.KeyReport {
	var out []*aliquotv1.KeyReport
	for _, s := range spent {
		out = append(out, &aliquotv1.KeyReport{
			Key: KeyTo(s.Key), Limit: limitToWire(s.Limit), AdmittedMicro: s.Admitted, RefundedMicro: s.Refunded,
			AgeMicros: max(0, s.Age).Microseconds() + 1,
		})
	}
	return out
}
