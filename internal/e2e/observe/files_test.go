package observe

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/goccy/go-yaml"
)

// promtool runs Prometheus' own checker.
func promtool(t *testing.T, args ...string) {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "promtool", args...).CombinedOutput()
	if errors.Is(err, exec.ErrNotFound) {
		t.Fatal("promtool is missing; `make test` installs it")
	}
	if err != nil {
		t.Errorf("promtool %s: %v\n%s", strings.Join(args, " "), err, out)
	}
}

func TestPromtool(t *testing.T) {
	promtool(t, "check", "config", prometheusFile)
	promtool(t, "check", "rules", "--lint=all", "--lint-fatal", alertsFile)
	promtool(t, "test", "rules", alertsTestFile)
}

// TestAlertsHelpWhoeverTheyWake: each alert says what is wrong and what to do, names a
// section of the handbook that is there, and has a case in which it fires.
func TestAlertsHelpWhoeverTheyWake(t *testing.T) {
	cases, handbook := string(read(t, alertsTestFile)), string(read(t, runbookFile))
	anchors := map[string]bool{}
	for _, heading := range regexp.MustCompile(`(?m)^#+ (.+)$`).FindAllStringSubmatch(handbook, -1) {
		anchors[anchorOf(heading[1])] = true
	}
	seen := map[string]bool{}
	for _, a := range alerts(t) {
		if seen[a.Alert] {
			t.Errorf("%s twice", a.Alert)
		}
		seen[a.Alert] = true
		if d, err := time.ParseDuration(a.For); err != nil || d < 15*time.Second || d > 5*time.Minute {
			t.Errorf("%s: for %q", a.Alert, a.For)
		}
		if s := a.Labels["severity"]; s != "critical" && s != "warning" {
			t.Errorf("%s: severity %q", a.Alert, s)
		}
		if len(a.Annotations["summary"]) < 20 || len(a.Annotations["description"]) < 80 {
			t.Errorf("%s: summary %q, description %q", a.Alert, a.Annotations["summary"], a.Annotations["description"])
		}
		anchor, found := strings.CutPrefix(a.Annotations["runbook"], "docs/how-to/answer-an-alert.md#")
		if !found || !anchors[anchor] {
			t.Errorf("%s: docs/how-to/answer-an-alert.md has no section for %q", a.Alert, a.Annotations["runbook"])
		}
		fires := regexp.MustCompile(`exp_samples: .*alertname="` + a.Alert + `",alertstate="firing"|alertname: ` + a.Alert + `\n +exp_alerts:\n`)
		if !fires.MatchString(cases) {
			t.Errorf("%s: no case in which it fires", a.Alert)
		}
	}
}

// anchorOf is how Markdown renderers name a heading.
func anchorOf(heading string) string {
	kept := regexp.MustCompile(`[^a-z0-9 _-]`).ReplaceAllString(strings.ToLower(heading), "")
	return strings.ReplaceAll(kept, " ", "-")
}

// panelTypes are the visualisations that come with Grafana and are used here.
var panelTypes = []string{"row", "stat", "timeseries", "table", "bargauge", "state-timeline"}

// TestDashboardIsWellFormed holds the file against what Grafana silently forgives and
// people do not: panels that overlap, lack a unit, or do not say what is normal.
func TestDashboardIsWellFormed(t *testing.T) {
	d := globalUsage(t)
	if d.UID != "aliquot-global-usage" || d.Title != "Global usage" || d.SchemaVersion < 38 {
		t.Errorf("uid %q, title %q, schema %d", d.UID, d.Title, d.SchemaVersion)
	}
	ids, titles := map[int]bool{}, map[string]bool{}
	for i, p := range d.Panels {
		if ids[p.ID] || p.ID == 0 || titles[p.Title] || p.Title == "" {
			t.Errorf("panel %d %q: the id or the title is missing or not its own", p.ID, p.Title)
		}
		ids[p.ID], titles[p.Title] = true, true
		if !slices.Contains(panelTypes, p.Type) {
			t.Errorf("%s: type %q", p.Title, p.Type)
		}
		g := p.GridPos
		if g.X < 0 || g.Y < 0 || g.W < 1 || g.H < 1 || g.X+g.W > 24 {
			t.Errorf("%s: at %+v", p.Title, g)
		}
		for _, other := range d.Panels[:i] {
			if o := other.GridPos; g.X < o.X+o.W && o.X < g.X+g.W && g.Y < o.Y+o.H && o.Y < g.Y+g.H {
				t.Errorf("%s overlaps %s", p.Title, other.Title)
			}
		}
		if p.Type == "row" {
			if len(p.Targets) > 0 || len(p.Panels) > 0 {
				t.Errorf("row %s: its panels stand beside it", p.Title)
			}
			continue
		}
		wellFormed(t, p)
	}
}

func wellFormed(t *testing.T, p panel) {
	t.Helper()
	fromVariable := datasource{Type: "prometheus", UID: "${datasource}"}
	if len(p.Description) < 10 || !strings.HasSuffix(p.Description, ".") {
		t.Errorf("%s: the description %q is not a sentence on what is normal", p.Title, p.Description)
	}
	if p.FieldConfig.Defaults.Unit == "" || p.Datasource != fromVariable || len(p.Targets) == 0 {
		t.Errorf("%s: unit %q, data source %v, %d targets", p.Title, p.FieldConfig.Defaults.Unit, p.Datasource, len(p.Targets))
	}
	refs := map[string]bool{}
	for _, q := range p.Targets {
		if refs[q.RefID] || q.RefID == "" {
			t.Errorf("%s: refId %q is missing or not its own", p.Title, q.RefID)
		}
		refs[q.RefID] = true
		if q.Datasource != fromVariable || q.Instant == q.Range || q.Expr == "" {
			t.Errorf("%s %s: data source %v, instant %v, range %v", p.Title, q.RefID, q.Datasource, q.Instant, q.Range)
		}
		if strings.Contains(q.Expr, "rate(") && !strings.Contains(q.Expr, "[$__rate_interval]") {
			t.Errorf("%s %s: a rate over a fixed time: %s", p.Title, q.RefID, q.Expr)
		}
	}
	for _, o := range p.FieldConfig.Overrides {
		if o.Matcher.ID == "byFrameRefID" && !refs[o.Matcher.Options] {
			t.Errorf("%s: an override for %q, which is no target", p.Title, o.Matcher.Options)
		}
	}
}

// TestDashboardVariablesAreUsed: and what is used is declared.
func TestDashboardVariablesAreUsed(t *testing.T) {
	text := string(read(t, dashboardFile))
	declared := map[string]bool{}
	for _, v := range globalUsage(t).Templating.List {
		declared[v.Name] = true
		if !strings.Contains(text, "$"+v.Name) && !strings.Contains(text, "${"+v.Name+"}") {
			t.Errorf("the variable %s is not used", v.Name)
		}
	}
	for _, use := range regexp.MustCompile(`\$\{?([a-z]+)\b`).FindAllStringSubmatch(text, -1) {
		if !declared[use[1]] {
			t.Errorf("$%s is not declared", use[1])
		}
	}
	for _, want := range []string{"datasource", "rule", "region"} {
		if !declared[want] {
			t.Errorf("no variable %s", want)
		}
	}
}

// TestProvisioning: Grafana finds its data source and this dashboard.
func TestProvisioning(t *testing.T) {
	var sources struct {
		APIVersion  int `yaml:"apiVersion"`
		Datasources []struct {
			Type, URL string
			IsDefault bool `yaml:"isDefault"`
		}
	}
	var providers struct {
		APIVersion int `yaml:"apiVersion"`
		Providers  []struct {
			Type    string
			Options struct{ Path string }
		}
	}
	decode(t, "datasources", &sources)
	decode(t, "dashboards", &providers)
	if len(sources.Datasources) != 1 || sources.Datasources[0].Type != "prometheus" || !sources.Datasources[0].IsDefault {
		t.Errorf("data sources %+v", sources)
	}
	if len(providers.Providers) != 1 || providers.Providers[0].Type != "file" || !filepath.IsAbs(providers.Providers[0].Options.Path) {
		t.Errorf("providers %+v", providers)
	}
}

// decode reads the one YAML file of a folder of the provisioning.
func decode(t *testing.T, folder string, into any) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(filepath.FromSlash(provisioning), folder, "*.yaml"))
	if err != nil || len(files) != 1 {
		t.Fatalf("%s: %v, %v", folder, files, err)
	}
	if err := yaml.Unmarshal(read(t, files[0]), into); err != nil {
		t.Errorf("%s: %v", files[0], err)
	}
}

// TestDashboardsAreJSON: every file that Grafana would load.
func TestDashboardsAreJSON(t *testing.T) {
	n := 0
	err := filepath.WalkDir(filepath.Dir(filepath.FromSlash(dashboardFile)), func(path string, e fs.DirEntry, err error) error {
		if err == nil && !e.IsDir() {
			if n++; filepath.Ext(path) != ".json" || !json.Valid(read(t, path)) {
				t.Errorf("%s is not JSON", path)
			}
		}
		return err
	})
	if err != nil || n == 0 {
		t.Errorf("%d files, %v", n, err)
	}
}
