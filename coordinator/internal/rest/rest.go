// Package rest serves what there is without RPC: the rules as they were written, the value of one tier,
// and a page for a browser. Every answer comes from the service of the rules.
package rest

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"aliquot/internal/rpc"
	aliquotv1 "aliquot/proto/aliquot/v1"
)

// Rules is the service of the rules.
type Rules interface {
	GetRules(context.Context, *aliquotv1.GetRulesRequest) (*aliquotv1.GetRulesResponse, error)
	EditRules(context.Context, *aliquotv1.EditRulesRequest) (*aliquotv1.ApplyRulesResponse, error)
}

// handler serves the rules to HTTP clients.
type handler struct{ rules Rules }

// Register adds the paths to mux.
func Register(mux *http.ServeMux, rules Rules) {
	h := handler{rules}
	mux.HandleFunc("GET /rules", h.serveRules)
	mux.HandleFunc("PUT /rules/tier/{tier}", h.putTier)
	mux.HandleFunc("DELETE /rules/tier/{tier}", h.deleteTier)
	mux.HandleFunc("GET /{$}", serveIndex)
}

const index = `Aliquot coordinator: splits rate limits over regions and keeps their sum at the limit.

  curl http://%[1]s/rules
  curl -X PUT -d '{"limit":500,"capacity":500}' http://%[1]s/rules/tier/pro
  curl -H 'Content-Type: application/json' -d '{}' http://%[1]s/aliquot.v1.ClusterService/GetStatus
  curl -H 'Content-Type: application/json' -d '{}' http://%[1]s/aliquot.v1.BudgetService/ListBudgets

Requests are checked by the regional daemons (LimiterService), not here. Connect, gRPC
and gRPC-Web are spoken on this port, with reflection. Metrics and health are on the
ops port.
`

// serveIndex explains the service to a browser.
func serveIndex(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	fmt.Fprintf(w, index, r.Host)
}

// serveRules serves the rules in force here as they were written, or as JSON with version, author and
// comment if the request accepts that. The version is the ETag. Version 0 is empty: no rules were
// applied yet. The parameter version names an earlier version that is still kept.
func (h handler) serveRules(w http.ResponseWriter, r *http.Request) {
	version, err := versionOf(r.URL.RawQuery)
	if err != nil {
		serveStatus(w, http.StatusBadRequest, err.Error())
		return
	}
	res, err := h.rules.GetRules(r.Context(), &aliquotv1.GetRulesRequest{Version: version})
	if err != nil {
		serveProblem(w, err)
		return
	}
	tag := etag(res.GetVersion())
	w.Header().Set("ETag", tag)
	w.Header().Set("Cache-Control", "no-cache")
	w.Header().Set("Vary", "Accept")
	// As JSON the answer tells of a staged version, which the version in force does not show.
	if staged := wantsJSON(r) && res.GetRollout() != nil; !staged && r.Header.Get("If-None-Match") == tag {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	if wantsJSON(r) {
		serveJSON(w, http.StatusOK, res)
		return
	}
	w.Header().Set("Content-Type", "application/yaml; charset=utf-8")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	_, _ = io.WriteString(w, res.GetYaml()) // an error means that the caller has left
}

// versionOf returns the version that the query of GET /rules names, or 0 if there is no query.
func versionOf(query string) (version uint64, err error) {
	if query == "" {
		return 0, nil
	}
	values, err := url.ParseQuery(query)
	if of := values["version"]; err == nil && len(values) == 1 && len(of) == 1 {
		version, err = strconv.ParseUint(of[0], 10, 64)
	}
	if err != nil || version == 0 {
		return 0, errors.New("the query: the one parameter is version, a number from 1; write GET /rules for the rules in force, or GET /rules?version=7")
	}
	return version, nil
}

// wantsJSON reports whether the request names JSON among what it accepts. A request that accepts
// anything gets the file.
func wantsJSON(r *http.Request) bool {
	for part := range strings.SplitSeq(r.Header.Get("Accept"), ",") {
		if media, _, err := mime.ParseMediaType(part); err == nil && media == "application/json" {
			return true
		}
	}
	return false
}

// etag returns the ETag of a version of the rules.
func etag(version uint64) string { return `"` + strconv.FormatUint(version, 10) + `"` }

// serveJSON answers with a message in the same JSON as the RPCs.
func serveJSON(w http.ResponseWriter, status int, m proto.Message) {
	body, err := rpc.MarshalJSON(m)
	if err != nil {
		serveProblem(w, err)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(status)
	_, _ = w.Write(body) // an error means that the caller has left
}

// problem is the body of an error, as RFC 9457 defines it. Its type is about:blank: the status says
// what kind it is, the detail says what to do.
type problem struct {
	Type   string `json:"type"`
	Title  string `json:"title"`
	Status int    `json:"status"`
	Detail string `json:"detail"`
}

// statuses are the HTTP statuses of the codes of RPCs; any other code is 500.
var statuses = map[connect.Code]int{
	connect.CodeInvalidArgument:    http.StatusBadRequest,
	connect.CodeNotFound:           http.StatusNotFound,
	connect.CodeAlreadyExists:      http.StatusConflict,
	connect.CodeFailedPrecondition: http.StatusConflict,
	connect.CodeAborted:            http.StatusConflict,
	connect.CodeResourceExhausted:  http.StatusTooManyRequests,
	connect.CodeUnavailable:        http.StatusServiceUnavailable,
	connect.CodeDeadlineExceeded:   http.StatusGatewayTimeout,
	connect.CodeCanceled:           http.StatusGatewayTimeout,
}

// serveProblem answers with the error of an RPC.
func serveProblem(w http.ResponseWriter, err error) {
	status, known := statuses[connect.CodeOf(err)]
	if !known {
		status = http.StatusInternalServerError
	}
	serveStatus(w, status, problemDetail(err))
}

// problemDetail returns the message of an RPC's error without its code.
func problemDetail(err error) string {
	if wire, ok := errors.AsType[*connect.Error](err); ok {
		return wire.Message()
	}
	return err.Error()
}

// serveStatus answers with a status and a problem body.
func serveStatus(w http.ResponseWriter, status int, detail string) {
	body, err := json.Marshal(problem{Type: "about:blank", Title: http.StatusText(status), Status: status, Detail: detail})
	if err != nil {
		status, body = http.StatusInternalServerError, nil
	}
	w.Header().Set("Content-Type", "application/problem+json")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(status)
	_, _ = w.Write(body) // an error means that the caller has left
}

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
func (h handler) putTier(w http.ResponseWriter, r *http.Request) {
	tier, err := readTier(http.MaxBytesReader(w, r.Body, maxTierBody))
	if err != nil {
		status := http.StatusBadRequest
		if _, large := errors.AsType[*http.MaxBytesError](err); large {
			status = http.StatusRequestEntityTooLarge
		}
		serveStatus(w, status, "the body: "+err.Error()+`; send JSON such as {"limit": 500, "capacity": 500}`)
		return
	}
	h.serveTier(w, r, tier)
}

// deleteTier removes the value of one tier, so that the file's value holds again.
func (h handler) deleteTier(w http.ResponseWriter, r *http.Request) {
	h.serveTier(w, r, &aliquotv1.TierEdit{Remove: true})
}

// serveTier changes the tier in the path, and answers with its rules.
func (h handler) serveTier(w http.ResponseWriter, r *http.Request, tier *aliquotv1.TierEdit) {
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
	res, err := h.rules.EditRules(r.Context(), req)
	if err != nil {
		if versionConflict(err) {
			serveStatus(w, http.StatusPreconditionFailed, problemDetail(err))
			return
		}
		serveProblem(w, err)
		return
	}
	w.Header().Set("ETag", etag(res.GetVersion()))
	serveJSON(w, http.StatusOK, res)
}

// versionConflict reports whether an error says that another version than the expected one is in force. Only such a
// change is known not to be made; the versions do not tell: this node may lag, or have the change by now.
func versionConflict(err error) bool {
	wire, ok := errors.AsType[*connect.Error](err)
	return ok && slices.ContainsFunc(wire.Details(), func(d *connect.ErrorDetail) bool {
		return d.Type() == string((*aliquotv1.RulesVersionConflict)(nil).ProtoReflect().Descriptor().FullName())
	})
}

// repeatedName returns a name that a JSON object has twice, in any letter case; the later one would count silently. It
// returns "" if there is none.
func repeatedName(object []byte) string {
	d := json.NewDecoder(bytes.NewReader(object))
	_, _ = d.Token() // the object's start
	seen := map[string]bool{}
	for d.More() {
		name, _ := d.Token()
		text, _ := name.(string)
		var value json.RawMessage
		if d.Decode(&value) != nil {
			return ""
		}
		if seen[strings.ToLower(text)] {
			return text
		}
		seen[strings.ToLower(text)] = true
	}
	return ""
}

// wrongTier says what a value must be that does not fit its field, without Go's names of types.
func wrongTier(err error) error {
	wrong, ok := errors.AsType[*json.UnmarshalTypeError](err)
	switch {
	case !ok:
		return err
	case wrong.Field == "":
		return fmt.Errorf("it must be a JSON object, and is a JSON %s", wrong.Value)
	case wrong.Field == "refill_rate":
		return errors.New("refill_rate must be a number of requests a second, above 0 and without quotes")
	}
	return fmt.Errorf("%s must be a whole number from 1 to 1000000000, without quotes", wrong.Field)
}

func readTier(body io.Reader) (*aliquotv1.TierEdit, error) {
	in := tierBody{}
	object, err := io.ReadAll(body)
	if err != nil {
		return nil, err
	}
	d := json.NewDecoder(bytes.NewReader(object))
	d.DisallowUnknownFields()
	if err := d.Decode(&in); err != nil {
		return nil, wrongTier(err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("something follows the JSON object")
	}
	if name := repeatedName(object); name != "" {
		return nil, fmt.Errorf("%q is there twice", name)
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
