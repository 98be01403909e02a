package deploycheck

import (
	"fmt"
	"path"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// kubernetesContainers are the pods, with the names that the services give them.
func kubernetesContainers(t *testing.T, b built) (*network, []*container) {
	t.Helper()
	m, n := loadManifests(t), newNetwork()
	byKind := map[string][]*container{}
	for _, w := range m.workloads() {
		for _, pod := range w.pods {
			c := m.pod(t, b, w, pod)
			byKind[c.kind] = append(byKind[c.kind], c)
			for _, name := range m.dnsNames(w, pod) {
				n.names[name] = pod
			}
		}
	}
	return n, slices.Concat(byKind["redis"], byKind["coordinator"], byKind["regional"])
}

// dnsNames are those by which exactly this pod is found: its own below a headless
// service, and those of a service whose only pod it is.
func (m *manifests) dnsNames(w workload, pod string) (out []string) {
	for _, s := range m.services {
		name := s.Name
		switch {
		case !labels.SelectorFromSet(s.Spec.Selector).Matches(labels.Set(w.template.Labels)):
			continue
		case s.Spec.ClusterIP == corev1.ClusterIPNone:
			name = pod + "." + name
		case len(w.pods) > 1:
			continue
		}
		for _, suffix := range []string{"", "." + s.Namespace, "." + s.Namespace + ".svc", "." + s.Namespace + ".svc.cluster.local"} {
			out = append(out, name+suffix)
		}
	}
	return out
}

func (m *manifests) pod(t *testing.T, b built, w workload, name string) *container {
	t.Helper()
	spec := w.container(t)
	var c *container
	if target, ours := strings.CutPrefix(strings.Split(spec.Image, ":")[0], "aliquot/"); ours {
		c = b.container(t, target, name, spec.Args, podEnvironment(t, spec, name))
	} else {
		c = &container{name: name, host: name, kind: "redis", program: findRedis(t, spec.Command[0]), args: spec.Args, files: map[string]string{}}
	}
	for _, mount := range spec.VolumeMounts {
		c.files[mount.MountPath] = m.volume(t, w, mount.Name)
	}
	for _, p := range []*corev1.Probe{spec.StartupProbe, spec.LivenessProbe, spec.ReadinessProbe} {
		if p.HTTPGet != nil {
			cp, _ := w.port(t, p.HTTPGet.Port)
			c.health = append(c.health, []string{"/usr/local/bin/probe", fmt.Sprintf("http://127.0.0.1:%d%s", cp.ContainerPort, p.HTTPGet.Path)})
		} else if p.Exec != nil {
			c.health = append(c.health, p.Exec.Command)
		}
	}
	return c
}

// podEnvironment resolves variables as the kubelet does: in order, $(NAME) of those
// before, and the pod's name by the downward API.
func podEnvironment(t *testing.T, spec corev1.Container, pod string) map[string]string {
	t.Helper()
	env := map[string]string{}
	for _, e := range spec.Env {
		value := e.Value
		if e.ValueFrom != nil {
			if e.ValueFrom.FieldRef == nil || e.ValueFrom.FieldRef.FieldPath != "metadata.name" {
				t.Fatalf("%s: %s comes from where this test does not know", pod, e.Name)
			}
			value = pod
		}
		for name, known := range env {
			value = strings.ReplaceAll(value, "$("+name+")", known)
		}
		if strings.Contains(value, "$(") {
			t.Fatalf("%s: %s=%s names a variable that is not set before", pod, e.Name, value)
		}
		env[e.Name] = value
	}
	return env
}

// volume is a directory with what a volume holds at first.
func (m *manifests) volume(t *testing.T, w workload, name string) string {
	t.Helper()
	dir := t.TempDir()
	for _, v := range w.template.Spec.Volumes {
		if v.Name != name || v.ConfigMap == nil {
			continue
		}
		for _, c := range m.configMaps {
			for file, text := range c.Data {
				if c.Name == v.ConfigMap.Name {
					write(t, path.Join(dir, file), text)
				}
			}
		}
	}
	return dir
}
