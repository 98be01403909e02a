package regional

import (
	"context"
	"crypto/rand"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"aliquot/internal/checkwire"
	"aliquot/limit"
	aliquotv1 "aliquot/proto/aliquot/v1"
	"aliquot/rules"
)

// Bounds of the time that a reservation lasts, and its default.
const (
	minTTL     = time.Second
	maxTTL     = time.Hour
	defaultTTL = time.Minute
	// maxIDBytes caps the id that a caller chooses for a reservation.
	maxIDBytes = 128
)

// noReservation is added to the reason of a request that was allowed without the store.
const noReservation = "there is no reservation to settle, the estimate stands"

// Reserve decides one request whose costs are an estimate.
func (s *service) Reserve(ctx context.Context, in *aliquotv1.ReserveRequest) (*aliquotv1.ReserveResponse, error) {
	began := time.Now()
	defer func() { s.metrics.DecisionSeconds.Observe(time.Since(began).Seconds()) }()
	r, err := validateReserve(in)
	if err != nil {
		return nil, rpcCodes.Error(err)
	}
	if err := s.enter(ctx, 1); err != nil {
		return nil, err
	}
	defer s.leave(1)
	result, err := s.limiter.reserve(ctx, &r)
	if err != nil {
		return nil, rpcCodes.Error(err)
	}
	if result.decision.TooMany > 0 {
		return nil, rpcCodes.Error(tooMany(result.decision.TooMany))
	}
	out := &aliquotv1.ReserveResponse{}
	var answer checkwire.Answer
	if result.repeated {
		fillAnswer(result.decision, nil, nil, &answer)
	} else {
		s.answer(result.decision, &r.Request, &answer)
	}
	out.Decision = answer.Message()
	if result.made {
		out.Id, out.ExpiresUnixMs = r.id, result.ends
	} else if out.Decision.GetAllowed() {
		out.Decision.Reason = strings.TrimPrefix(out.Decision.GetReason()+"; "+noReservation, "; ")
	}
	s.throttle.answered(ctx, !deniedByRules(&answer))
	return out, nil
}

func validateReserve(in *aliquotv1.ReserveRequest) (reserving, error) {
	r, err := validate(wireRequest(&aliquotv1.CheckRequest{
		Attributes: in.GetAttributes(), Cost: in.Cost, Namespace: in.GetNamespace(), Costs: in.GetCosts(),
	}))
	if err != nil {
		return reserving{}, err
	}
	out := reserving{Request: r, id: in.GetId(), ttl: defaultTTL}
	if out.id == "" {
		out.id = rand.Text()
	} else if err := validateID(out.id, maxIDBytes); err != nil {
		return reserving{}, err
	}
	out.chosen = in.GetId() != ""
	if in.GetTtl() != nil {
		if out.ttl = in.GetTtl().AsDuration(); in.GetTtl().CheckValid() != nil || out.ttl < minTTL || out.ttl > maxTTL {
			return reserving{}, fmt.Errorf("%w: ttl is %v; it must be from %v to %v, or absent for %v", errInvalid, out.ttl, minTTL, maxTTL, defaultTTL)
		}
	}
	return out, nil
}

func validateID(id string, maxBytes int) error {
	if id == "" || len(id) > maxBytes || !utf8.ValidString(id) {
		return fmt.Errorf("%w: an id of %d bytes; it must be 1 to %d bytes of valid UTF-8", errInvalid, len(id), maxBytes)
	}
	return nil
}

// Settle ends a reservation with what was used.
func (s *service) Settle(ctx context.Context, in *aliquotv1.SettleRequest) (*aliquotv1.SettleResponse, error) {
	if err := validateSettle(in); err != nil {
		return nil, rpcCodes.Error(err)
	}
	if err := s.enter(ctx, 1); err != nil {
		return nil, err
	}
	defer s.leave(1)
	result, err := s.limiter.settle(ctx, in.GetNamespace(), in.GetId(), usage{cost: in.Cost, costs: in.GetCosts()})
	if err != nil {
		return nil, rpcCodes.Error(err)
	}
	return result.answer(), nil
}

func validateSettle(in *aliquotv1.SettleRequest) error {
	if err := validateID(in.GetId(), maxIDBytes+boundBytes); err != nil {
		return err
	}
	if len(in.GetNamespace()) > maxNameBytes || !utf8.ValidString(in.GetNamespace()) {
		return fmt.Errorf("%w: namespace must be at most %d bytes of valid UTF-8", errInvalid, maxNameBytes)
	}
	if cost := in.GetCost(); cost < 0 || cost > maxCost {
		return fmt.Errorf("%w: cost is %d; it must be from 0 to %d, or absent for the estimate", errInvalid, cost, int64(maxCost))
	}
	if len(in.GetCosts()) > maxUnits {
		return fmt.Errorf("%w: costs of %d units; at most %d are allowed", errInvalid, len(in.GetCosts()), maxUnits)
	}
	for unit, cost := range in.GetCosts() {
		switch {
		case unit == "" || len(unit) > maxNameBytes || !utf8.ValidString(unit):
			return fmt.Errorf("%w: a unit of costs has %d bytes; it must be 1 to %d bytes of valid UTF-8", errInvalid, len(unit), maxNameBytes)
		case unit == rules.UnitRequests:
			return fmt.Errorf("%w: costs names the unit %s; say it as cost", errInvalid, unit)
		case cost < 0 || cost > maxCost:
			return fmt.Errorf("%w: the cost of unit %q is %d; it must be from 0 to %d, or absent for the estimate", errInvalid, unit, cost, int64(maxCost))
		}
	}
	return nil
}

// answer returns the response for a settlement. A limit whose rule is gone is in it with nothing
// refunded or charged.
func (r *settledResult) answer() *aliquotv1.SettleResponse {
	out := &aliquotv1.SettleResponse{State: r.state}
	adjusted := r.adjusted
	for i := range r.reservation.Limits {
		l := &r.reservation.Limits[i]
		if l.Never || i >= len(r.notes) {
			continue
		}
		one := &aliquotv1.SettledLimit{
			RuleId: l.Rule, Unit: l.Unit, Reserved: int64(l.Cost / limit.Token), Used: r.notes[i].Used,
		}
		if r.notes[i].Part && len(adjusted) > 0 {
			one.Refunded, one.Charged = int64(adjusted[0].Refunded/limit.Token), int64(adjusted[0].Charged/limit.Token)
			adjusted = adjusted[1:]
		}
		out.Limits = append(out.Limits, one)
	}
	return out
}
