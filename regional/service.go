package regional

import (
	"context"
	"errors"
	"fmt"
	"time"
	"unicode/utf8"

	"connectrpc.com/connect"

	"aliquot/limit"
	"aliquot/lua"
	aliquotv1 "aliquot/proto/aliquot/v1"
	"aliquot/rls"
	"aliquot/rpc"
	"aliquot/rules"
)

// Limits of one check.
const (
	maxAttributes = 64
	maxNameBytes  = 64
	maxValueBytes = 4 << 10
	// maxCost is the largest cost in whole requests, so that micro-tokens stay far
	// inside an int64; a cost above a limit's capacity is denied anyway.
	maxCost = 1_000_000_000_000
	// maxUnits is the most units that one request can have costs of.
	maxUnits = 16
	maxBatch = 1000
	// maxMessage holds a batch of 1,000 requests of the usual size.
	maxMessage = 4 << 20
)

// errInvalid is wrapped by everything that is wrong with a request.
var errInvalid = errors.New("invalid request")

// rpcCodes is the daemon's one translation of errors to RPC codes.
var rpcCodes = rpc.Table{
	{Err: errInvalid, Code: connect.CodeInvalidArgument},
	{Err: rls.ErrInvalid, Code: connect.CodeInvalidArgument},
	{Err: errNoDecision, Code: connect.CodeNotFound},
	{Err: errTooManyRules, Code: connect.CodeFailedPrecondition},
	{Err: errNoReservation, Code: connect.CodeNotFound},
	{Err: lua.ErrNoRoom, Code: connect.CodeResourceExhausted},
	{Err: errNotSettled, Code: connect.CodeUnavailable},
}

// errTooManyRules: the rules file matches one request too often.
var errTooManyRules = errors.New("too many rules match")

// service is LimiterService, over Connect and gRPC alike. Safe for concurrent use.
type service struct {
	aliquotv1.UnimplementedLimiterServiceServer
	limiter *limiter
	metrics *metrics
	ids     *decisionIDs
	recent  *recent
	denials *denials
	holders *holders
	region  string
}

// Check decides one request.
func (s *service) Check(ctx context.Context, in *aliquotv1.CheckRequest) (*aliquotv1.CheckResponse, error) {
	began := time.Now()
	defer func() { s.metrics.decisionSeconds.Observe(time.Since(began).Seconds()) }()
	r, err := validate(in)
	if err != nil {
		return nil, rpcCodes.Error(err)
	}
	d, err := s.limiter.decide(ctx, []request{r})
	if err != nil {
		return nil, rpcCodes.Error(err)
	}
	if d[0].tooMany > 0 {
		return nil, rpcCodes.Error(tooMany(d[0].tooMany))
	}
	return s.answer(&d[0], &r), nil
}

// CheckBatch decides many requests; one that is invalid does not spoil the others.
func (s *service) CheckBatch(ctx context.Context, in *aliquotv1.CheckBatchRequest) (*aliquotv1.CheckBatchResponse, error) {
	began := time.Now()
	defer func() { s.metrics.decisionSeconds.Observe(time.Since(began).Seconds()) }()
	if n := len(in.GetRequests()); n < 1 || n > maxBatch {
		return nil, rpcCodes.Error(fmt.Errorf("%w: a batch of %d requests; send 1 to %d", errInvalid, n, maxBatch))
	}
	results := make([]*aliquotv1.CheckBatchResult, len(in.GetRequests()))
	valid := make([]request, 0, len(results))
	at := make([]int, 0, len(results))
	for i, one := range in.GetRequests() {
		r, err := validate(one)
		if err != nil {
			results[i] = &aliquotv1.CheckBatchResult{Error: err.Error()}
			continue
		}
		valid, at = append(valid, r), append(at, i)
	}
	decisions, err := s.limiter.decide(ctx, valid)
	if err != nil {
		return nil, rpcCodes.Error(err)
	}
	for j := range decisions {
		results[at[j]] = s.batchResult(&decisions[j], &valid[j])
	}
	return &aliquotv1.CheckBatchResponse{Results: results}, nil
}

func (s *service) batchResult(d *decision, r *request) *aliquotv1.CheckBatchResult {
	if d.tooMany > 0 {
		return &aliquotv1.CheckBatchResult{Error: tooMany(d.tooMany).Error()}
	}
	return &aliquotv1.CheckBatchResult{Response: s.answer(d, r)}
}

func tooMany(n int) error {
	return fmt.Errorf("%w: %d rules apply to this request, at most 64 may; narrow their match", errTooManyRules, n)
}

// validate converts a request. Its errors name the field and never a value, which
// may be a secret.
func validate(in *aliquotv1.CheckRequest) (request, error) {
	cost := int64(1)
	if in.Cost != nil {
		cost = in.GetCost()
	}
	switch {
	case cost < 1:
		return request{}, fmt.Errorf("%w: cost is %d; it must be at least 1, or absent for 1", errInvalid, cost)
	case cost > maxCost:
		return request{}, fmt.Errorf("%w: cost is %d; it must be at most %d", errInvalid, cost, int64(maxCost))
	case len(in.GetNamespace()) > maxNameBytes || !utf8.ValidString(in.GetNamespace()):
		return request{}, fmt.Errorf("%w: namespace must be at most %d bytes of valid UTF-8", errInvalid, maxNameBytes)
	case len(in.GetAttributes()) > maxAttributes:
		return request{}, fmt.Errorf("%w: %d attributes; at most %d are allowed", errInvalid, len(in.GetAttributes()), maxAttributes)
	}
	for name, value := range in.GetAttributes() {
		switch {
		case name == "" || len(name) > maxNameBytes || !utf8.ValidString(name):
			return request{}, fmt.Errorf("%w: an attribute's name has %d bytes; it must be 1 to %d bytes of valid UTF-8", errInvalid, len(name), maxNameBytes)
		case len(value) > maxValueBytes:
			return request{}, fmt.Errorf("%w: attribute %q has %d bytes; at most %d are allowed", errInvalid, name, len(value), maxValueBytes)
		case !utf8.ValidString(value):
			return request{}, fmt.Errorf("%w: attribute %q is not valid UTF-8", errInvalid, name)
		}
	}
	if err := validateCosts(in.GetCosts()); err != nil {
		return request{}, err
	}
	return request{
		attributes: rules.AttributesOf(in.GetAttributes()), namespace: in.GetNamespace(),
		cost: limit.Tokens(cost) * limit.Token, costs: rules.CostsOf(in.GetCosts()),
	}, nil
}

// validateCosts checks what a request consumes of other units than requests.
func validateCosts(costs map[string]int64) error {
	if len(costs) > maxUnits {
		return fmt.Errorf("%w: costs of %d units; at most %d are allowed", errInvalid, len(costs), maxUnits)
	}
	for unit, cost := range costs {
		switch {
		case unit == "" || len(unit) > maxNameBytes || !utf8.ValidString(unit):
			return fmt.Errorf("%w: a unit of costs has %d bytes; it must be 1 to %d bytes of valid UTF-8", errInvalid, len(unit), maxNameBytes)
		case unit == rules.UnitRequests:
			return fmt.Errorf("%w: costs names the unit %s; say it as cost", errInvalid, unit)
		case cost < 1:
			return fmt.Errorf("%w: the cost of unit %q is %d; it must be at least 1, or absent for none", errInvalid, unit, cost)
		case cost > maxCost:
			return fmt.Errorf("%w: the cost of unit %q is %d; it must be at most %d", errInvalid, unit, cost, int64(maxCost))
		}
	}
	return nil
}
