package api

import (
	"context"
	"crypto/rand"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"aliquot/regional/internal/explain"

	"aliquot/internal/checkwire"
	aliquotv1 "aliquot/proto/aliquot/v1"
	"aliquot/regional/internal/charge"
	"aliquot/regional/internal/engine"
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
func (s *Service) Reserve(ctx context.Context, in *aliquotv1.ReserveRequest) (*aliquotv1.ReserveResponse, error) {
	began := time.Now()
	defer func() { s.metrics.DecisionSeconds.Observe(time.Since(began).Seconds()) }()
	r, err := validateReserve(in)
	if err != nil {
		return nil, rpcCodes.Error(err)
	}
	turn, err := s.door.Enter(ctx)
	if err != nil {
		return nil, rpcCodes.Error(err)
	}
	defer s.door.Leave(turn)
	result, err := s.limiter.Reserve(ctx, &r)
	if err != nil {
		return nil, rpcCodes.Error(err)
	}
	if err := result.Decision.Undecided(); err != nil {
		return nil, rpcCodes.Error(err)
	}
	out := &aliquotv1.ReserveResponse{}
	var answer checkwire.Answer
	if result.Repeated {
		explain.Fill(result.Decision, &answer)
	} else {
		s.answers.Answer(result.Decision, &r.Request, &answer)
	}
	out.Decision = answer.Message()
	if result.Made {
		out.Id, out.ExpiresUnixMs = r.ID, result.Ends
	} else if out.Decision.GetAllowed() {
		out.Decision.Reason = strings.TrimPrefix(out.Decision.GetReason()+"; "+noReservation, "; ")
	}
	s.throttle.Answered(ctx, !explain.DeniedByRules(&answer))
	return out, nil
}

func validateReserve(in *aliquotv1.ReserveRequest) (engine.Reserving, error) {
	r, err := validate(wireRequest(&aliquotv1.CheckRequest{
		Attributes: in.GetAttributes(), Cost: in.Cost, Namespace: in.GetNamespace(), Costs: in.GetCosts(),
	}))
	if err != nil {
		return engine.Reserving{}, err
	}
	out := engine.Reserving{Request: r, ID: in.GetId(), TTL: defaultTTL}
	if out.ID == "" {
		out.ID = rand.Text()
	} else if err := validateID(out.ID, maxIDBytes); err != nil {
		return engine.Reserving{}, err
	}
	out.Chosen = in.GetId() != ""
	if in.GetTtl() != nil {
		if out.TTL = in.GetTtl().AsDuration(); in.GetTtl().CheckValid() != nil || out.TTL < minTTL || out.TTL > maxTTL {
			return engine.Reserving{}, fmt.Errorf("%w: ttl is %v; it must be from %v to %v, or absent for %v", charge.ErrInvalid, out.TTL, minTTL, maxTTL, defaultTTL)
		}
	}
	return out, nil
}

func validateID(id string, maxBytes int) error {
	if id == "" || len(id) > maxBytes || !utf8.ValidString(id) {
		return fmt.Errorf("%w: an id of %d bytes; it must be 1 to %d bytes of valid UTF-8", charge.ErrInvalid, len(id), maxBytes)
	}
	return nil
}

// Settle ends a reservation with what was used.
func (s *Service) Settle(ctx context.Context, in *aliquotv1.SettleRequest) (*aliquotv1.SettleResponse, error) {
	if err := validateSettle(in); err != nil {
		return nil, rpcCodes.Error(err)
	}
	turn, err := s.door.Enter(ctx)
	if err != nil {
		return nil, rpcCodes.Error(err)
	}
	defer s.door.Leave(turn)
	result, err := s.limiter.Settle(ctx, in.GetNamespace(), in.GetId(), engine.Usage{Cost: in.Cost, Costs: in.GetCosts()})
	if err != nil {
		return nil, rpcCodes.Error(err)
	}
	return settleAnswer(&result), nil
}

func validateSettle(in *aliquotv1.SettleRequest) error {
	if err := validateID(in.GetId(), maxIDBytes+engine.BoundBytes); err != nil {
		return err
	}
	if len(in.GetNamespace()) > maxNameBytes || !utf8.ValidString(in.GetNamespace()) {
		return fmt.Errorf("%w: namespace must be at most %d bytes of valid UTF-8", charge.ErrInvalid, maxNameBytes)
	}
	if cost := in.GetCost(); cost < 0 || cost > maxCost {
		return fmt.Errorf("%w: cost is %d; it must be from 0 to %d, or absent for the estimate", charge.ErrInvalid, cost, int64(maxCost))
	}
	if len(in.GetCosts()) > maxUnits {
		return fmt.Errorf("%w: costs of %d units; at most %d are allowed", charge.ErrInvalid, len(in.GetCosts()), maxUnits)
	}
	for unit, cost := range in.GetCosts() {
		switch {
		case unit == "" || len(unit) > maxNameBytes || !utf8.ValidString(unit):
			return fmt.Errorf("%w: a unit of costs has %d bytes; it must be 1 to %d bytes of valid UTF-8", charge.ErrInvalid, len(unit), maxNameBytes)
		case unit == rules.UnitRequests:
			return fmt.Errorf("%w: costs names the unit %s; say it as cost", charge.ErrInvalid, unit)
		case cost < 0 || cost > maxCost:
			return fmt.Errorf("%w: the cost of unit %q is %d; it must be from 0 to %d, or absent for the estimate", charge.ErrInvalid, unit, cost, int64(maxCost))
		}
	}
	return nil
}

// settleAnswer returns the response for a settlement.
func settleAnswer(r *engine.SettledResult) *aliquotv1.SettleResponse {
	out := &aliquotv1.SettleResponse{State: r.State}
	for _, p := range r.Parts() {
		out.Limits = append(out.Limits, &aliquotv1.SettledLimit{
			RuleId: p.Rule, Unit: p.Unit, Reserved: p.Reserved, Used: p.Used, Refunded: p.Refunded, Charged: p.Charged,
		})
	}
	return out
}
