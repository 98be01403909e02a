// Package observe tests what people see of an installation: the metrics, the Grafana
// dashboard, and the alerts, in a real Prometheus that scrapes real daemons.
package observe

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/goccy/go-yaml"
)

// The files under test, from this folder.
const (
	module         = "../../.."
	prometheusFile = module + "/deploy/prometheus/prometheus.yml"
	alertsFile     = module + "/deploy/prometheus/alerts.yml"
	alertsTestFile = module + "/deploy/prometheus/alerts_test.yml"
	dashboardFile  = module + "/deploy/grafana/dashboards/global-usage.json"
	provisioning   = module + "/deploy/grafana/provisioning"
	runbookFile    = module + "/docs/how-to/answer-an-alert.md"
)

// until polls a condition until it holds, and fails the test if it never does.
func until(t *testing.T, within time.Duration, what string, holds func() error) {
	t.Helper()
	began := time.Now()
	ctx, cancel := context.WithTimeout(t.Context(), within)
	defer cancel()
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for {
		err := holds()
		if err == nil {
			if took := time.Since(began); took > time.Second {
				t.Logf("%s: after %v", what, took.Round(100*time.Millisecond))
			}
			return
		}
		select {
		case <-ctx.Done():
			t.Fatalf("not within %v: %s: %v", within, what, err)
		case <-tick.C:
		}
	}
}

func read(t *testing.T, file string) []byte {
	t.Helper()
	text, err := os.ReadFile(filepath.FromSlash(file))
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// alertRules is the part of a rules file that the tests look at.
type alertRules struct {
	Groups []struct {
		Name  string      `yaml:"name"`
		Rules []alertRule `yaml:"rules"`
	} `yaml:"groups"`
}

type alertRule struct {
	Alert       string            `yaml:"alert"`
	Expr        string            `yaml:"expr"`
	For         string            `yaml:"for"`
	Labels      map[string]string `yaml:"labels"`
	Annotations map[string]string `yaml:"annotations"`
}

// alerts are all rules of the alerts file.
func alerts(t *testing.T) (out []alertRule) {
	t.Helper()
	var file alertRules
	if err := yaml.UnmarshalWithOptions(read(t, alertsFile), &file, yaml.Strict()); err != nil {
		t.Fatal(err)
	}
	for _, g := range file.Groups {
		out = append(out, g.Rules...)
	}
	if len(out) < 5 {
		t.Fatalf("%d alerts in %s", len(out), alertsFile)
	}
	return out
}

// dashboard is the part of Grafana's model that the tests look at.
type dashboard struct {
	UID           string  `json:"uid"`
	Title         string  `json:"title"`
	SchemaVersion int     `json:"schemaVersion"`
	Panels        []panel `json:"panels"`
	Templating    struct {
		List []struct {
			Name  string          `json:"name"`
			Type  string          `json:"type"`
			Query json.RawMessage `json:"query"`
		} `json:"list"`
	} `json:"templating"`
}

type panel struct {
	ID          int        `json:"id"`
	Type        string     `json:"type"`
	Title       string     `json:"title"`
	Description string     `json:"description"`
	Datasource  datasource `json:"datasource"`
	GridPos     struct {
		H, W, X, Y int
	} `json:"gridPos"`
	FieldConfig struct {
		Defaults struct {
			Unit string `json:"unit"`
		} `json:"defaults"`
		Overrides []struct {
			Matcher struct{ ID, Options string } `json:"matcher"`
		} `json:"overrides"`
	} `json:"fieldConfig"`
	Targets []target `json:"targets"`
	Panels  []panel  `json:"panels"` // of a collapsed row
}

type target struct {
	RefID        string     `json:"refId"`
	Expr         string     `json:"expr"`
	LegendFormat string     `json:"legendFormat"`
	Datasource   datasource `json:"datasource"`
	Instant      bool       `json:"instant"`
	Range        bool       `json:"range"`
}

type datasource struct{ Type, UID string }

func globalUsage(t *testing.T) dashboard {
	t.Helper()
	var d dashboard
	if err := json.Unmarshal(read(t, dashboardFile), &d); err != nil {
		t.Fatal(err)
	}
	return d
}

// metricName finds the names of this product's metrics in an expression.
var metricName = regexp.MustCompile(`\baliquot_[a-z_]+`)

// substituted is an expression as Grafana sends it, with everything chosen.
func substituted(expr string) (string, error) {
	out := strings.NewReplacer("$__rate_interval", "1m", "$rule", ".*", "$region", ".*").Replace(expr)
	if strings.Contains(out, "$") {
		return "", fmt.Errorf("a variable that this test does not know: %s", out)
	}
	return out, nil
}

// errNothing is an answer without samples.
var errNothing = errors.New("no data")
