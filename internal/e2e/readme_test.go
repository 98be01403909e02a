package e2e

import (
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// firstRegion is the port of the first region of `aliquot dev`, without an offset.
const firstRegion = 7500

// documentedPort is a port of a daemon as the documents write it: a whole number after
// "127.0.0.1:", or in the list of a shell loop.
var documentedPort = regexp.MustCompile(`\b7[45]\d\d\b`)

// commands are the indented commands of a Markdown file that call curl. What ends in a
// backslash, or in "do", goes on.
func commands(text string) []string {
	var out []string
	var one []string
	loop := false
	for line := range strings.Lines(text) {
		command, indented := strings.CutPrefix(strings.TrimRight(line, "\n"), "    ")
		starts := strings.HasPrefix(command, "curl ") || strings.HasPrefix(command, "for ")
		if !indented || len(one) == 0 && !starts {
			continue
		}
		one = append(one, command)
		loop = loop && command != "done" || strings.HasSuffix(command, "; do")
		if !loop && !strings.HasSuffix(command, `\`) {
			out, one = append(out, strings.Join(one, "\n")), nil
		}
	}
	return out
}

// says is what some documented commands have to answer, by a part of them; the others
// have to be found and understood.
type says map[string]string

// TestDocumentedCurlLines runs every curl line of the README and of docs/reference/http.md, in
// their order.
func TestDocumentedCurlLines(t *testing.T) {
	says{
		"for port in":       `^\{"allowed":true,"ruleId":"per-key","limit":"300","remaining":"10",(.*\n\{"allowed":true,){2}.*\n\{"allowed":false,"ruleId":"per-key","limit":"300",.*"retryAfter":"[0-3]\.`,
		"/GetBudget":        `^\{"budget":\{"ruleId":"per-key",.*"region":"us-east","share":`,
		"/rules/tier/pro":   `^\{"type":"about:blank","title":"Not Found","status":404,"detail":"not in the rules: no rule names a tier`, // these rules have none
		"/v1/orders?page=2": `^HTTP/1\.1 200 OK\r\n(.*\r\n)*X-Ratelimit-Limit: 300\r\n`,
		"cost=301":          `^HTTP/1\.1 429 Too Many Requests\r\n(.*\r\n)*X-Decision-Id: us-east-(.*\r\n)*\r\n\{"type":"https://iana.org/assignments/http-problem-types#quota-exceeded",.*"error":\{"code":"RATE_LIMIT_EXCEEDED",`,
	}.run(t, startDev(t), "../../README.md", "../../docs/reference/http.md")
}

// TestDocumentedReservation runs those of docs/reference/reserve.md under the rules there.
func TestDocumentedReservation(t *testing.T) {
	text, err := os.ReadFile("../../docs/reference/reserve.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rules, _ := strings.Cut(string(text), "```yaml\n")
	rules, _, _ = strings.Cut(rules, "```")
	file := filepath.Join(t.TempDir(), "llm.yaml")
	if err := os.WriteFile(file, []byte(rules), 0o600); err != nil {
		t.Fatal(err)
	}
	says{
		"/Reserve": `^\{"decision":\{"allowed":true,.*"key-calls".*\},"id":"call-1\.[\w-]{22}","expiresUnixMs":"\d+"\}`,
		"/Settle": `^\{"state":"settled","limits":\[(\{"ruleId":"(org|project|key)-tokens","unit":"tokens_out","reserved":"2000","used":"312","refunded":"1688","charged":"0"\},){3}` +
			`\{"ruleId":"key-prompt","unit":"tokens_in","reserved":"1200","used":"1187","refunded":"13",`,
	}.run(t, startDev(t, "--rules", file), "../../docs/reference/reserve.md")
}

// of is what a command has to answer.
func (s says) of(command string) (wants []string) {
	for part, want := range s {
		if strings.Contains(command, part) {
			wants = append(wants, want)
		}
	}
	return wants
}

// slow is a loop in which tokens flow in that its last check is not to have.
const slow = 500 * time.Millisecond

// output is what a command prints. A loop of checks that took too long is run again, for
// another client, unless it prints what it has to.
func (s says) output(t *testing.T, dir, command string) (out []byte, err error) {
	t.Helper()
	for again := range 10 {
		began := time.Now()
		key := "sk_1" + strings.Repeat("x", again)
		shell := exec.CommandContext(t.Context(), "sh", "-c", strings.ReplaceAll(command, "sk_1", key))
		shell.Dir = dir
		out, err = shell.Output()
		matches := func(want string) bool { return regexp.MustCompile(want).Match(out) }
		if !strings.HasPrefix(command, "for ") || time.Since(began) < slow || all(s.of(command), matches) {
			break
		}
	}
	return out, err
}

func all(wants []string, hold func(string) bool) bool {
	return !slices.ContainsFunc(wants, func(want string) bool { return !hold(want) })
}

// run runs the commands of documents against p in their order, in a folder of their own.
func (s says) run(t *testing.T, p *Process, files ...string) {
	t.Helper()
	if _, err := exec.LookPath("curl"); err != nil {
		t.Fatal("curl is not in PATH; `make test` installs it")
	}
	at, err := url.Parse(curl.FindStringSubmatch(p.Tail())[1])
	if err != nil {
		t.Fatal(err)
	}
	port, err := strconv.Atoi(at.Port())
	if err != nil {
		t.Fatal(err)
	}
	ran, dir := 0, t.TempDir()
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, command := range commands(string(text)) {
			moved := documentedPort.ReplaceAllStringFunc(command, func(text string) string {
				n, _ := strconv.Atoi(text)
				return strconv.Itoa(n + port - firstRegion)
			})
			out, err := s.output(t, dir, moved)
			if err != nil || len(out) == 0 || strings.HasPrefix(string(out), "404") || strings.Contains(string(out), `"code":"`) && !strings.Contains(string(out), "problem+json") {
				t.Errorf("%s: %v\n%s\nanswers\n%s", file, err, command, out)
			}
			ran += len(s.of(command))
			for _, want := range s.of(command) {
				if !regexp.MustCompile(want).Match(out) {
					t.Errorf("%s:\n%s\nanswers\n%s\nwant %s", file, command, out, want)
				}
			}
		}
	}
	if ran != len(s) {
		t.Errorf("%d of the %d known lines were found; are there others now?", ran, len(s))
	}
}
