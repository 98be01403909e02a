package observe

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/goccy/go-yaml"

	"aliquot/internal/e2e"
)

// hurry is how much shorter than in production alerts wait before they fire here: a
// scrape a second instead of one every five to fifteen, and so the same number of
// scrapes that must agree.
const hurry = 15

// prometheus is a running server.
type prometheus struct{ url string }

// startPrometheus runs Debian's Prometheus with the configuration under test, but for
// the addresses of the targets (by the names that the configuration has), a scrape
// every second, and alerts whose `for` is shortened by hurry.
func startPrometheus(t *testing.T, targets map[string]string) *prometheus {
	t.Helper()
	dir := t.TempDir()
	write(t, filepath.Join(dir, "alerts.yml"), hurried(t))
	config := filepath.Join(dir, "prometheus.yml")
	write(t, config, retargeted(t, targets))

	address, err := e2e.FreeAddress()
	if err != nil {
		t.Fatal(err)
	}
	log := &bytes.Buffer{}
	cmd := exec.Command("prometheus", "--config.file="+config, "--storage.tsdb.path="+filepath.Join(dir, "data"),
		"--web.listen-address="+address, "--log.level=warn")
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		t.Fatalf("%v; `make test` installs it", err)
	}
	t.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
		if t.Failed() {
			t.Logf("prometheus: %s", log)
		}
	})
	p := &prometheus{url: "http://" + address}
	until(t, alertWithin, "Prometheus is ready", func() error {
		answer, err := http.Get(p.url + "/-/ready")
		if err != nil {
			return err
		}
		answer.Body.Close()
		if answer.StatusCode != http.StatusOK {
			return fmt.Errorf("%s", answer.Status)
		}
		return nil
	})
	return p
}

func write(t *testing.T, file string, text []byte) {
	t.Helper()
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
}

// hurried is the alerts file with every `for` divided by hurry.
func hurried(t *testing.T) []byte {
	t.Helper()
	var file struct {
		Groups []struct {
			Name  string           `yaml:"name"`
			Rules []map[string]any `yaml:"rules"`
		} `yaml:"groups"`
	}
	if err := yaml.Unmarshal(read(t, alertsFile), &file); err != nil {
		t.Fatal(err)
	}
	for _, g := range file.Groups {
		for _, rule := range g.Rules {
			wait, err := time.ParseDuration(rule["for"].(string))
			if err != nil {
				t.Fatal(err)
			}
			rule["for"] = fmt.Sprintf("%ds", wait/hurry/time.Second)
		}
	}
	return encode(t, file)
}

// retargeted is the configuration with other addresses and a faster pace.
func retargeted(t *testing.T, targets map[string]string) []byte {
	t.Helper()
	var file map[string]any
	if err := yaml.Unmarshal(read(t, prometheusFile), &file); err != nil {
		t.Fatal(err)
	}
	file["global"] = map[string]any{"scrape_interval": "1s", "scrape_timeout": "1s", "evaluation_interval": "1s"}
	left := maps.Clone(targets)
	for _, job := range file["scrape_configs"].([]any) {
		for _, static := range job.(map[string]any)["static_configs"].([]any) {
			all := static.(map[string]any)["targets"].([]any)
			for i, name := range all {
				address := targets[name.(string)]
				if address == "" {
					t.Fatalf("%s has the target %s, which the test does not run", prometheusFile, name)
				}
				all[i] = address
				delete(left, name.(string))
			}
		}
	}
	if len(left) > 0 {
		t.Fatalf("%s lacks the targets %v", prometheusFile, left)
	}
	return encode(t, file)
}

func encode(t *testing.T, v any) []byte {
	t.Helper()
	out, err := yaml.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// get asks the API and decodes the data of its answer.
func (p *prometheus) get(path string, query url.Values, data any) error {
	answer, err := http.Get(p.url + path + "?" + query.Encode())
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		return err
	}
	var envelope struct {
		Status, Error string
		Data          json.RawMessage
	}
	if err := json.Unmarshal(body, &envelope); err != nil {
		return fmt.Errorf("%w in %s", err, body)
	}
	if envelope.Status != "success" {
		return fmt.Errorf("%s", envelope.Error)
	}
	return json.Unmarshal(envelope.Data, data)
}

// point is a sample: its time in Unix seconds and its value.
type point struct{ at, value float64 }

// UnmarshalJSON reads [1700000000.1, "0.5"].
func (p *point) UnmarshalJSON(text []byte) error {
	var pair [2]any
	if err := json.Unmarshal(text, &pair); err != nil {
		return err
	}
	at, isNumber := pair[0].(float64)
	value, isText := pair[1].(string)
	if !isNumber || !isText {
		return fmt.Errorf("not a sample: %s", text)
	}
	var err error
	p.at = at
	p.value, err = strconv.ParseFloat(value, 64)
	return err
}

// result is one series of an answer; an instant query fills Value, a range Values.
type result struct {
	Metric map[string]string
	Value  point
	Values []point
}

// query asks for now.
func (p *prometheus) query(expr string) ([]result, error) {
	var data struct{ Result []result }
	if err := p.get("/api/v1/query", url.Values{"query": {expr}}, &data); err != nil {
		return nil, err
	}
	return sound(data.Result, func(r result) []point { return []point{r.Value} })
}

// queryRange asks for the time since, a point a second.
func (p *prometheus) queryRange(expr string, since time.Time) ([]result, error) {
	var data struct{ Result []result }
	ask := url.Values{"query": {expr}, "start": {unix(since)}, "end": {unix(time.Now())}, "step": {"1"}}
	if err := p.get("/api/v1/query_range", ask, &data); err != nil {
		return nil, err
	}
	return sound(data.Result, func(r result) []point { return r.Values })
}

func unix(t time.Time) string { return strconv.FormatFloat(float64(t.UnixMilli())/1e3, 'f', 3, 64) }

// sound refuses an answer without data, and one with values that nobody can draw.
func sound(all []result, points func(result) []point) ([]result, error) {
	n := 0
	for _, r := range all {
		for _, p := range points(r) {
			n++
			if math.IsNaN(p.value) || math.IsInf(p.value, 0) {
				return nil, fmt.Errorf("%v at %v of %v", p.value, p.at, r.Metric)
			}
		}
	}
	if n == 0 {
		return nil, errNothing
	}
	return all, nil
}

// firing are the alerts that fire, as "Name" or "Name region" or "Name rule".
func (p *prometheus) firing() (map[string]bool, error) {
	var data struct {
		Alerts []struct {
			Labels map[string]string
			State  string
		}
	}
	if err := p.get("/api/v1/alerts", nil, &data); err != nil {
		return nil, err
	}
	out := map[string]bool{}
	for _, a := range data.Alerts {
		if a.State != "firing" {
			continue
		}
		name := a.Labels["alertname"]
		out[name] = true
		for _, label := range []string{"region", "rule"} {
			if of := a.Labels[label]; of != "" {
				out[name+" "+of] = true
			}
		}
	}
	return out, nil
}
