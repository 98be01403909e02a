package coordinator

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	clusterstate "aliquot/cluster/state"
	aliquotv1 "aliquot/proto/aliquot/v1"
)

const (
	// maxTierBody bounds the body, far above the size of four numbers.
	maxTierBody = 16 << 10
	// Headers with the author and the comment of a change.
	authorHeader  = "Aliquot-Author"
	commentHeader = "Aliquot-Comment"
	// restAuthor is the author of a change without authorHeader.
	restAuthor = "REST"
)

// tierBody is the body of PUT /rules/tier/{tier}. An absent field is not set.
type tierBody struct {
	Limit      *int64   `json:"limit"`
	Capacity   *int64   `json:"capacity"`
	RefillRate *float64 `json:"refill_rate"`
	Window     *window  `json:"window"`
}

// window is a number of seconds, or a text like "1m", as in a rules file.
type window time.Duration

// UnmarshalJSON implements json.Unmarshaler.
func (w *window) UnmarshalJSON(data []byte) error {
	var text string
	if json.Unmarshal(data, &text) == nil {
		d, err := time.ParseDuration(text)
		*w = window(d)
		return err
	}
	var seconds float64
	if err := json.Unmarshal(data, &seconds); err != nil || seconds < 0 || seconds*float64(time.Second) >= math.MaxInt64 {
		return errors.New(`write seconds (60) or a text like "1m"`)
	}
	*w = window(seconds * float64(time.Second))
	return nil
}

// putTier sets the value of one tier, above what the file states. If-Match with the ETag of GET /rules
// makes it conditional. The body is read as JSON whatever its Content-Type is: curl -d sends another
// one, and a browser asks before it sends a PUT to another origin.
func (s *ruleService) putTier(w http.ResponseWriter, r *http.Request) {
	tier, err := readTier(http.MaxBytesReader(w, r.Body, maxTierBody))
	if err != nil {
		status := http.StatusBadRequest
		if _, large := errors.AsType[*http.MaxBytesError](err); large {
			status = http.StatusRequestEntityTooLarge
		}
		serveStatus(w, status, "the body: "+err.Error()+`; send JSON such as {"limit": 500, "capacity": 500}`)
		return
	}
	s.serveTier(w, r, tier)
}

// deleteTier removes the value of one tier, so that the file's value holds again.
func (s *ruleService) deleteTier(w http.ResponseWriter, r *http.Request) {
	s.serveTier(w, r, &aliquotv1.TierEdit{Remove: true})
}

// serveTier changes the tier in the path, and answers with its rules.
func (s *ruleService) serveTier(w http.ResponseWriter, r *http.Request, tier *aliquotv1.TierEdit) {
	tier.Tier = r.PathValue("tier")
	req := &aliquotv1.EditRulesRequest{
		Edit:   &aliquotv1.EditRulesRequest_Tier{Tier: tier},
		Author: cmp.Or(r.Header.Get(authorHeader), restAuthor), Comment: r.Header.Get(commentHeader),
	}
	var err error
	if req.ExpectedVersion, err = ifMatch(r.Header.Values("If-Match")); err != nil {
		serveStatus(w, http.StatusBadRequest, err.Error())
		return
	}
	res, err := s.EditRules(r.Context(), req)
	if err != nil {
		if req.ExpectedVersion != nil && s.differs(*req.ExpectedVersion) {
			serveStatus(w, http.StatusPreconditionFailed, problemDetail(err))
			return
		}
		serveProblem(w, err)
		return
	}
	w.Header().Set("ETag", etag(res.GetVersion()))
	serveJSON(w, http.StatusOK, res)
}

// differs reports whether another version is in force here.
func (s *ruleService) differs(version uint64) (is bool) {
	s.node.View(func(state *clusterstate.State) { is = state.Rules.Version != version })
	return is
}

func readTier(body io.Reader) (*aliquotv1.TierEdit, error) {
	in := tierBody{}
	d := json.NewDecoder(body)
	d.DisallowUnknownFields()
	if err := d.Decode(&in); err != nil {
		return nil, err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("something follows the JSON object")
	}
	out := &aliquotv1.TierEdit{}
	for _, n := range []struct {
		name string
		from *int64
		to   *int64
	}{{"limit", in.Limit, &out.Limit}, {"capacity", in.Capacity, &out.Capacity}} {
		if n.from == nil {
			continue
		}
		if *n.from < 1 {
			return nil, fmt.Errorf("%s is %d; it must be at least 1", n.name, *n.from)
		}
		*n.to = *n.from
	}
	if in.RefillRate != nil {
		if *in.RefillRate <= 0 {
			return nil, fmt.Errorf("refill_rate is %v; it must be above 0", *in.RefillRate)
		}
		out.RefillRate = *in.RefillRate
	}
	if in.Window != nil {
		if *in.Window <= 0 {
			return nil, fmt.Errorf("window is %v; it must be at least a second", time.Duration(*in.Window))
		}
		out.Window = durationpb.New(time.Duration(*in.Window))
	}
	return out, nil
}

// ifMatch returns the version that a change is conditional on; nil if there is no condition.
func ifMatch(tags []string) (*uint64, error) {
	if len(tags) == 0 || len(tags) == 1 && strings.TrimSpace(tags[0]) == "*" {
		return nil, nil
	}
	text := strings.TrimSpace(tags[0])
	version, err := strconv.ParseUint(strings.Trim(text, `"`), 10, 64)
	if len(tags) > 1 || err != nil || etag(version) != text {
		return nil, errors.New(`If-Match: give the ETag that GET /rules answered, such as "7"`)
	}
	return &version, nil
}
