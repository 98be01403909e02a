package cli

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"connectrpc.com/connect"

	aliquotv1 "aliquot/proto/aliquot/v1"
	"aliquot/proto/aliquot/v1/aliquotv1connect"
)

// refusing is a coordinator that refuses the rules: with two problems if they are planned, and because
// of their version if they are applied.
type refusing struct {
	aliquotv1connect.UnimplementedRuleServiceHandler
}

func (refusing) PlanRules(_ context.Context, in *aliquotv1.PlanRulesRequest) (*aliquotv1.PlanRulesResponse, error) {
	err := connect.NewError(connect.CodeInvalidArgument, errorText("r.yaml:1:1: one\nr.yaml:3:7: two\nand 4 more"))
	detail, _ := connect.NewErrorDetail(&aliquotv1.RulesProblems{Omitted: 4, Problems: []*aliquotv1.RulesProblem{
		{File: in.GetFileName(), Line: 1, Column: 1, Message: "one"}, {File: in.GetFileName(), Line: 3, Column: 7, Message: "two"},
	}}) // of a valid message
	err.AddDetail(detail)
	return nil, err
}

func (refusing) EditRules(context.Context, *aliquotv1.EditRulesRequest) (*aliquotv1.ApplyRulesResponse, error) {
	return nil, connect.NewError(connect.CodeInvalidArgument, errorText("block: ttl is 1ms; give 1s to 8760h, or nothing for good"))
}

func (refusing) ApplyRules(context.Context, *aliquotv1.ApplyRulesRequest) (*aliquotv1.ApplyRulesResponse, error) {
	return nil, connect.NewError(connect.CodeFailedPrecondition, errorText("version 99 was expected, but 3 is in force"))
}

type errorText string

func (e errorText) Error() string { return string(e) }

// With --output json or yaml an error is one object on standard error, with the places in a file as
// data. The exit codes are those of the table.
func TestErrorsAreDataWhereOutputIs(t *testing.T) {
	mux := http.NewServeMux()
	mux.Handle(aliquotv1connect.NewRuleServiceHandler(refusing{}))
	coordinator := httptest.NewServer(mux)
	defer coordinator.Close()
	at := []string{"--addr", coordinator.URL}
	nobody := unused(t)
	for name, c := range map[string]struct {
		args []string
		exit int
		want string // of the object, without its message
		says string // in the message
	}{
		"a flag that is none": {[]string{"check", "--cots", "3", "a=1", "-o", "json"}, exitUsage, `{"code":"usage","help":"aliquot check --help"}`, "did you mean --cost?"},
		"the format first":    {[]string{"--output=json", "chek"}, exitUsage, `{"code":"usage","help":"aliquot --help"}`, "did you mean 'aliquot check'?"},
		"nobody listens":      {[]string{"budget", "list", "--addr", nobody, "-ojson"}, exitError, `{"code":"unavailable"}`, "connection refused; start one"},
		"a file that is none": {[]string{"rules", "plan", "none.yaml", "-o", "json"}, exitError, `{"code":"failed"}`, "rules file: open none.yaml"},
		"refused rules": {append([]string{"rules", "plan", "-", "-o", "json"}, at...), exitError,
			`{"code":"invalid_argument","column":1,"file":"<stdin>","line":1,"omitted":4,"problems":[` +
				`{"column":1,"file":"<stdin>","line":1,"message":"one"},{"column":7,"file":"<stdin>","line":3,"message":"two"}]}`, "the rules were refused"},
		"a time that is too long": {append([]string{"rules", "plan", "-", "--wait", "1h", "-o", "json"}, at...), exitUsage, `{"code":"usage","help":"aliquot rules plan --help"}`, "--wait 1h0m0s: give a positive duration, at most 30s"},
		"an end that was before":  {append([]string{"block", "k", "--ttl", "-1h", "-o", "json"}, at...), exitUsage, `{"code":"usage","help":"aliquot block --help"}`, "--ttl -1h0m0s: give a positive duration"},
		"an end that is refused":  {append([]string{"block", "k", "--ttl", "1ms", "-o", "json"}, at...), exitError, `{"code":"invalid_argument"}`, "nothing changed: block: ttl is 1ms"},
		"another version":         {append([]string{"rules", "apply", "-", "-o", "json"}, at...), exitError, `{"code":"failed_precondition"}`, "nothing changed: version 99"},
		"a method that is none":   {append([]string{"rules", "history", "-o", "json"}, at...), exitError, `{"code":"unimplemented"}`, "is not implemented"},
	} {
		got := command(t, "rules: []\n", c.args...)
		var out map[string]map[string]any
		if err := json.Unmarshal([]byte(got.err), &out); err != nil || len(out) != 1 || strings.Count(got.err, "\n") != 1 || got.code != c.exit {
			t.Errorf("%s: exit %d, %v: %s", name, got.code, err, got.err)
			continue
		}
		message, _ := out["error"]["message"].(string)
		delete(out["error"], "message")
		if rest, err := json.Marshal(out["error"]); err != nil || unescaped(rest) != c.want || !strings.Contains(message, c.says) {
			t.Errorf("%s: %s, %q, %v\nwant %s, %q", name, unescaped(rest), message, err, c.want, c.says)
		}
	}
	command(t, "rules: []\n", append([]string{"rules", "plan", "-", "-o", "yaml"}, at...)...).
		want(t, exitError, "---\nerror:\n", "line: 3", "column: 7")
	if got := command(t, "rules: []\n", append([]string{"rules", "plan", "-"}, at...)...); !slices.Equal(strings.Split(got.err, "\n"),
		[]string{"aliquot: the rules were refused, nothing changed:", "r.yaml:1:1: one", "r.yaml:3:7: two", "and 4 more", ""}) {
		t.Errorf("%q", got.err)
	}
}

// The problems that validate finds are in its error, too.
func TestValidateHasPlacesInItsError(t *testing.T) {
	got := command(t, "rulez: []\n", "rules", "validate", "-", "-o", "json")
	got.want(t, exitError)
	var out struct {
		Error struct {
			Code         string
			Line, Column int
			Problems     []struct{ Message string }
		}
	}
	if err := json.Unmarshal([]byte(got.err), &out); err != nil || out.Error.Code != "invalid_argument" || out.Error.Line != 1 || out.Error.Column != 1 || len(out.Error.Problems) != 2 {
		t.Errorf("%v: %s", err, got.err)
	}
}

// unescaped returns JSON with the angle brackets that Go escapes in it.
func unescaped(text []byte) string {
	return strings.NewReplacer(`\u003c`, "<", `\u003e`, ">").Replace(string(text))
}
