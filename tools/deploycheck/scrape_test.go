package deploycheck

import (
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

// scrapeJob is the part of a scrape job by pods that this test follows.
type scrapeJob struct {
	JobName             string `json:"job_name"`
	HonorLabels         bool   `json:"honor_labels"`
	KubernetesSDConfigs []struct {
		Role       string
		Namespaces struct{ Names []string }
	} `json:"kubernetes_sd_configs"`
	RelabelConfigs []struct {
		SourceLabels []string `json:"source_labels"`
		TargetLabel  string   `json:"target_label"`
		Regex        string
		Action       string
	} `json:"relabel_configs"`
}

// TestKubernetesScrape follows the jobs' relabelling over the pods of the manifests, as
// Prometheus would: each job keeps exactly the ops ports of its daemons. promtool is
// not asked: Debian builds it without the discovery of Kubernetes.
func TestKubernetesScrape(t *testing.T) {
	file := filepath.Join(repository(t), manifestDir, "prometheus.yml")
	var config struct {
		ScrapeConfigs []scrapeJob `json:"scrape_configs"`
	}
	if err := yaml.UnmarshalStrict(read(t, file), &config); err != nil {
		t.Fatal(err)
	}
	m, got := loadManifests(t), map[string][]string{}
	for _, job := range config.ScrapeConfigs {
		sd := job.KubernetesSDConfigs
		if len(sd) != 1 || sd[0].Role != "pod" || !slices.Equal(sd[0].Namespaces.Names, []string{m.namespaces[0].Name}) {
			t.Errorf("the job %s looks for %+v", job.JobName, sd)
		}
		for _, w := range m.workloads() {
			for _, port := range w.container(t).Ports {
				if labels, kept := job.relabel(metaLabels(w, port)); kept {
					got[job.JobName] = append(got[job.JobName], fmt.Sprintf("%s:%d region=%s", labels["instance"], port.ContainerPort, labels["region"]))
				}
			}
		}
	}
	want := map[string][]string{"coordinator": {"coordinator:7403 region="}, "regional": {"regional-us-east:7503 region=us-east"}}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("the jobs scrape %v, want %v", got, want)
	}
}

// metaLabels are those that Prometheus' discovery gives to a port of a pod. The pod is
// called as its workload, without the number or the hash.
func metaLabels(w workload, port corev1.ContainerPort) map[string]string {
	out := map[string]string{
		"__meta_kubernetes_pod_name":                w.name,
		"__meta_kubernetes_pod_container_port_name": port.Name,
	}
	unsafe := regexp.MustCompile(`[^A-Za-z0-9_]`)
	for key, value := range w.template.Labels {
		out["__meta_kubernetes_pod_label_"+unsafe.ReplaceAllString(key, "_")] = value
	}
	return out
}

// relabel does what the job's relabelling does with the two actions that it uses.
func (j scrapeJob) relabel(labels map[string]string) (map[string]string, bool) {
	for _, step := range j.RelabelConfigs {
		var values []string
		for _, name := range step.SourceLabels {
			values = append(values, labels[name])
		}
		joined := strings.Join(values, ";")
		switch step.Action {
		case "keep":
			if !regexp.MustCompile("^(?:" + step.Regex + ")$").MatchString(joined) {
				return nil, false
			}
		case "":
			labels[step.TargetLabel] = joined
		default:
			return nil, false
		}
	}
	return labels, true
}
