// Package leasewire translates the messages of LeaseService to the types of package budget and back.
// It is pure.
package leasewire

import (
	"fmt"
	"math"
	"time"

	"aliquot/budget"
	"aliquot/internal/hashslot"
	aliquotv1 "aliquot/proto/aliquot/v1"
)

// HashBytes is the length of a key's hash in a message.
const HashBytes = 16

// HelloFrom returns the Hello in a message. region is the index of its region. The error is
// budget.ErrMalformed.
func HelloFrom(region int, m *aliquotv1.HelloRequest) (budget.Hello, error) {
	h := budget.Hello{
		Region: region, Incarnation: m.GetIncarnation(), RedisEpoch: m.GetRedisEpoch(),
		Nonce: m.GetNonce(), Rules: budget.RulesState{Version: m.GetRulesVersion(), Ended: m.GetRulesEnded()},
		Held: make([]budget.Held, len(m.GetHeld())),
	}
	if m.GetNonce() == 0 {
		return h, fmt.Errorf("%w: nonce is zero; make a fresh one for each Hello", budget.ErrMalformed)
	}
	if len(m.GetRedisEpoch()) > maxRedisEpoch {
		return h, fmt.Errorf("%w: redis_epoch has %d bytes, at most %d", budget.ErrMalformed, len(m.GetRedisEpoch()), maxRedisEpoch)
	}
	var err error
	if h.Unreached, err = slotsFromWire(m.GetUnreachedSlots()); err != nil {
		return h, err
	}
	if h.Standing, err = standingFromWire(m); err != nil {
		return h, err
	}
	for i, held := range m.GetHeld() {
		key, err := keyFromWire(held.GetKey())
		if err != nil {
			return h, fmt.Errorf("%w in held[%d]", err, i)
		}
		share, err := shareFromWire(held.GetShare())
		if err != nil {
			return h, fmt.Errorf("%w in held[%d]", err, i)
		}
		if l := held.GetLimit(); l.GetCapacityMicro() < 0 || l.GetRateMicro() < 0 || l.GetRateFrac() < 0 {
			return h, fmt.Errorf("%w: negative limit in held[%d]", budget.ErrMalformed, i)
		}
		h.Held[i] = budget.Held{Key: key, Gen: genFromWire(held.GetGen()), Share: share, Limit: limitFromWire(held.GetLimit())}
	}
	return h, nil
}

// maxRedisEpoch bounds redis_epoch, which is replicated. It is longer than nonce, run id, birth time
// and the promotions of a thousand nodes of a Redis Cluster.
const maxRedisEpoch = 10_000

// ReportFrom returns the Report in a message. region is the index of its region. The error is
// budget.ErrMalformed.
func ReportFrom(region int, m *aliquotv1.ReportRequest) (budget.Report, error) {
	r := budget.Report{
		Region: region, Epoch: m.GetEpoch(), Session: m.GetSession(), Seq: m.GetSeq(),
		TSend: budget.Instant(m.GetTSend()), Ack: m.GetAck(), Rules: budget.RulesState{Version: m.GetRulesVersion(), Ended: m.GetRulesEnded()},
		Pace: microsFromWire(m.GetPaceMicros()), Opening: m.GetOpening(), Contents: m.GetContents(),
		Keys: make([]budget.KeyReport, len(m.GetKeys())),
	}
	var err error
	if r.Unreached, err = slotsFromWire(m.GetUnreachedSlots()); err != nil {
		return r, err
	}
	if r.Standing, err = standingFromWire(m); err != nil {
		return r, err
	}
	for i, k := range m.GetKeys() {
		if r.Keys[i], err = keyReportFromWire(k); err != nil {
			return r, fmt.Errorf("%w in keys[%d]", err, i)
		}
	}
	return r, nil
}

func keyReportFromWire(k *aliquotv1.KeyReport) (budget.KeyReport, error) {
	key, err := keyFromWire(k.GetKey())
	if err != nil {
		return budget.KeyReport{}, err
	}
	share, err := shareFromWire(k.GetShare())
	return budget.KeyReport{
		Key: key, Gen: genFromWire(k.GetGen()), Share: share,
		Admitted: k.GetAdmittedMicro(), Offered: k.GetOfferedMicro(),
		Released: k.GetReleasedMicro(), Tokens: k.GetTokensMicro(),
		Limit:     limitFromWire(k.GetLimit()),
		Rejecting: k.GetRejecting(), Cold: k.GetCold(),
		Idle: time.Duration(k.GetIdleNs()), Gap: time.Duration(k.GetGapNs()),
		InUse: k.GetInUse(), Label: k.GetLabel(), Refunded: k.GetRefundedMicro(),
	}, err
}

// maxSpent bounds the keys of which a message tells what was spent beside the counters of a session.
const maxSpent = 1000

// SpentFrom returns what a message tells of use beside the counters of a session. The error is
// budget.ErrMalformed.
func SpentFrom(spent []*aliquotv1.KeyReport) ([]budget.Spent, error) {
	if n := len(spent); n > maxSpent {
		return nil, fmt.Errorf("%w: spent names %d keys, at most %d", budget.ErrMalformed, n, maxSpent)
	}
	out := make([]budget.Spent, len(spent))
	for i, k := range spent {
		key, err := keyFromWire(k.GetKey())
		if err != nil {
			return nil, fmt.Errorf("%w in spent[%d]", err, i)
		}
		s := budget.Spent{
			Key: key, Limit: limitFromWire(k.GetLimit()), Admitted: k.GetAdmittedMicro(), Refunded: k.GetRefundedMicro(),
			Age: microsFromWire(k.GetAgeMicros()),
		}
		if l := s.Limit; s.Admitted < 0 || s.Refunded < 0 || s.Age < 0 || l.Capacity < 0 || l.Rate < 0 || l.RateFrac < 0 {
			return nil, fmt.Errorf("%w: negative amount in spent[%d]", budget.ErrMalformed, i)
		}
		out[i] = s
	}
	return out, nil
}

// standing is the part of Hellos and reports about the daemon and the others of its region.
type standing interface {
	GetDaemon() uint64
	GetStoreless() bool
	GetAlone() bool
	GetOthers() []uint64
}

// standingFromWire returns that part. The error is budget.ErrMalformed.
func standingFromWire(m standing) (budget.Standing, error) {
	s := budget.Standing{Daemon: budget.DaemonID(m.GetDaemon()), Storeless: m.GetStoreless(), Alone: m.GetAlone()}
	if n := len(m.GetOthers()); n > budget.MaxDaemons {
		return s, fmt.Errorf("%w: others names %d daemons, at most %d", budget.ErrMalformed, n, budget.MaxDaemons)
	}
	for _, id := range m.GetOthers() {
		s.Others = append(s.Others, budget.DaemonID(id))
	}
	return s, nil
}

// microsFromWire converts microseconds without overflow. The state machine refuses negative and too
// long durations.
func microsFromWire(micros int64) time.Duration {
	const most = int64(math.MaxInt64 / time.Microsecond)
	return time.Duration(min(max(micros, -1), most)) * time.Microsecond
}

func keyFromWire(m *aliquotv1.KeyId) (budget.KeyID, error) {
	if len(m.GetHash()) != HashBytes {
		return budget.KeyID{}, fmt.Errorf("%w: key hash of %d bytes, want %d", budget.ErrMalformed, len(m.GetHash()), HashBytes)
	}
	return budget.KeyID{Rule: m.GetRule(), Hash: [HashBytes]byte(m.GetHash())}, nil
}

func slotsFromWire(m []byte) (*hashslot.Set, error) {
	s, err := hashslot.FromBytes(m)
	if err != nil {
		return nil, fmt.Errorf("%w: unreached_slots: %w", budget.ErrMalformed, err)
	}
	return s, nil
}

func shareFromWire(m *aliquotv1.Share) (budget.Share, error) {
	s := budget.Share{Rate: m.GetRate(), Burst: m.GetBurst()}
	if s.Rate < 0 || s.Rate > budget.Unit || s.Burst < 0 || s.Burst > budget.Unit {
		return s, fmt.Errorf("%w: share outside 0 to %d", budget.ErrMalformed, budget.Unit)
	}
	return s, nil
}

func genFromWire(m *aliquotv1.Generation) budget.Gen {
	return budget.Gen{Epoch: m.GetEpoch(), Counter: m.GetCounter()}
}

func limitFromWire(m *aliquotv1.KeyLimit) budget.KeyLimit {
	return budget.KeyLimit{
		Capacity: m.GetCapacityMicro(), Rate: m.GetRateMicro(), RateFrac: m.GetRateFrac(),
		Placement: placementFromWire(m.GetPlacement()), Tail: microsFromWire(m.GetTailMicros()),
		Algorithm: uint8(min(m.GetAlgorithm(), math.MaxUint8)),
	}
}

// HelloResponse returns the state machine's part of the answer to a Hello; the service adds the rest.
func HelloResponse(ok budget.HelloOK) *aliquotv1.HelloResponse {
	return &aliquotv1.HelloResponse{
		Epoch: ok.Epoch, Session: ok.Session, Nonce: ok.Nonce, Actions: actionsToWire(ok.Actions),
		Watermark: &aliquotv1.Generation{Epoch: ok.Watermark.Epoch, Counter: ok.Watermark.Counter},
	}
}

// ReportResponse returns the answer to a report that carries a directive.
func ReportResponse(d budget.Directive) *aliquotv1.ReportResponse {
	return &aliquotv1.ReportResponse{
		Epoch: d.Epoch, Session: d.Session, Seq: d.Seq, TSend: int64(d.TSend),
		Renew: d.Renew, Actions: actionsToWire(d.Actions), Others: Daemons(d.Others),
	}
}

func actionsToWire(actions []budget.Action) []*aliquotv1.Action {
	out := make([]*aliquotv1.Action, len(actions))
	for i, a := range actions {
		out[i] = &aliquotv1.Action{
			Key:          &aliquotv1.KeyId{Rule: a.Key.Rule, Hash: a.Key.Hash[:]},
			Gen:          &aliquotv1.Generation{Epoch: a.Gen.Epoch, Counter: a.Gen.Counter},
			Share:        ShareTo(a.Share),
			GrantedMicro: a.Granted,
			Cold:         a.Cold,
			From:         a.From,
			Limit:        limitToWire(a.Limit),
		}
	}
	return out
}

// ShareTo returns a share as a message.
func ShareTo(s budget.Share) *aliquotv1.Share {
	return &aliquotv1.Share{Rate: s.Rate, Burst: s.Burst}
}

// limitToWire returns a limit as a message; nil for an unknown limit.
func limitToWire(l budget.KeyLimit) *aliquotv1.KeyLimit {
	if l == (budget.KeyLimit{}) {
		return nil
	}
	return &aliquotv1.KeyLimit{
		CapacityMicro: l.Capacity, RateMicro: l.Rate, RateFrac: l.RateFrac,
		Placement: aliquotv1.Placement(l.Placement), TailMicros: l.Tail.Microseconds(), Algorithm: uint32(l.Algorithm),
	}
}

// placementFromWire returns the placement of a message. It returns the default for a placement of a
// later version: the placement only decides how well a limit is used.
func placementFromWire(m aliquotv1.Placement) budget.Placement {
	if p := budget.Placement(m); m >= 0 && p.Valid() {
		return p
	}
	return budget.PlacementAuto
}
