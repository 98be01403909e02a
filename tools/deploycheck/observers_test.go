package deploycheck

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// prometheusConfig is the part of Prometheus' configuration that this test reads.
type prometheusConfig struct {
	RuleFiles     []string `json:"rule_files"`
	ScrapeConfigs []struct {
		JobName       string `json:"job_name"`
		StaticConfigs []struct {
			Targets []string `json:"targets"`
		} `json:"static_configs"`
	} `json:"scrape_configs"`
}

// TestComposePrometheusReachesItsTargets: the scrape jobs name services of the compose
// file, on a shared network and at their ops ports, and leave out none.
func TestComposePrometheusReachesItsTargets(t *testing.T) {
	p := composeProject(t)
	var config prometheusConfig
	dir := filepath.Join(repository(t), "deploy/prometheus")
	if err := yaml.Unmarshal(read(t, filepath.Join(dir, "prometheus.yml")), &config); err != nil {
		t.Fatal(err)
	}
	for _, f := range config.RuleFiles {
		read(t, filepath.Join(dir, strings.TrimPrefix(f, "/etc/prometheus/")))
	}
	jobs := map[string][]string{}
	for _, job := range config.ScrapeConfigs {
		for _, group := range job.StaticConfigs {
			jobs[job.JobName] = append(jobs[job.JobName], group.Targets...)
		}
	}
	for kind, port := range map[string]string{"coordinator": "7403", "regional": "7503"} {
		var want []string
		for name := range p.Services {
			if strings.HasPrefix(name, kind+"-") {
				want = append(want, name+":"+port)
				if !reachable(p, "prometheus", name) {
					t.Errorf("prometheus shares no network with %s", name)
				}
			}
		}
		slices.Sort(want)
		got := slices.Sorted(slices.Values(jobs[kind]))
		if !slices.Equal(got, want) {
			t.Errorf("the scrape job %q has the targets %v; the compose file has %v", kind, got, want)
		}
	}
}

// TestComposeGrafanaFindsItsDashboards: the data source is a service that it can reach,
// and the provider looks where the dashboards are mounted.
func TestComposeGrafanaFindsItsDashboards(t *testing.T) {
	p := composeProject(t)
	mounts := map[string]string{}
	for _, v := range p.Services["grafana"].Volumes {
		mounts[v.Target] = v.Source
	}
	sources := struct {
		Datasources []struct{ URL string }
	}{}
	provisioned(t, "datasources", &sources)
	if len(sources.Datasources) == 0 {
		t.Error("no data source is provisioned")
	}
	for _, s := range sources.Datasources {
		if host, _, _ := strings.Cut(strings.TrimPrefix(s.URL, "http://"), ":"); !reachable(p, "grafana", host) {
			t.Errorf("grafana cannot reach its data source %s", s.URL)
		}
	}
	providers := struct {
		Providers []struct {
			Options struct{ Path string }
		}
	}{}
	provisioned(t, "dashboards", &providers)
	if len(providers.Providers) == 0 {
		t.Error("no dashboard provider is provisioned")
	}
	for _, provider := range providers.Providers {
		read(t, filepath.Join(mounts[provider.Options.Path], "global-usage.json"))
	}
	home := p.Services["grafana"].Environment["GF_DASHBOARDS_DEFAULT_HOME_DASHBOARD_PATH"]
	read(t, filepath.Join(mounts[filepath.Dir(*home)], filepath.Base(*home)))
}

// provisioned reads every provisioning file of a kind into the same value.
func provisioned(t *testing.T, kind string, into any) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(repository(t), "deploy/grafana/provisioning", kind, "*.y*ml"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no provisioning file for %s (%v)", kind, err)
	}
	for _, f := range files {
		if err := yaml.Unmarshal(read(t, f), into); err != nil {
			t.Fatalf("%s: %v", f, err)
		}
	}
}
