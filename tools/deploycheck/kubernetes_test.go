package deploycheck

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// workload is what a Deployment and a StatefulSet have in common.
type workload struct {
	name     string
	selector *metav1.LabelSelector
	template corev1.PodTemplateSpec
	claims   []corev1.PersistentVolumeClaim // of a StatefulSet
	pods     []string                       // the names of its pods that are known beforehand
}

func (m *manifests) workloads() (out []workload) {
	for _, d := range m.deployments {
		out = append(out, workload{name: d.Name, selector: d.Spec.Selector, template: d.Spec.Template, pods: []string{d.Name}})
	}
	for _, s := range m.statefulSets {
		w := workload{name: s.Name, selector: s.Spec.Selector, template: s.Spec.Template, claims: s.Spec.VolumeClaimTemplates}
		for i := range *s.Spec.Replicas {
			w.pods = append(w.pods, fmt.Sprintf("%s-%d", s.Name, i))
		}
		out = append(out, w)
	}
	return out
}

// selected are the workloads whose pods a selector matches.
func (m *manifests) selected(t *testing.T, s *metav1.LabelSelector) (out []workload) {
	t.Helper()
	selector, err := metav1.LabelSelectorAsSelector(s)
	if err != nil {
		t.Fatal(err)
	}
	for _, w := range m.workloads() {
		if selector.Matches(labels.Set(w.template.Labels)) {
			out = append(out, w)
		}
	}
	return out
}

func (w workload) container(t *testing.T) corev1.Container {
	t.Helper()
	if len(w.template.Spec.Containers) != 1 || len(w.template.Spec.InitContainers) != 0 {
		t.Fatalf("%s: this test knows pods of one container", w.name)
	}
	return w.template.Spec.Containers[0]
}

// port is a container port by the name or the number that something else gives.
func (w workload) port(t *testing.T, p intstr.IntOrString) (corev1.ContainerPort, bool) {
	t.Helper()
	for _, cp := range w.container(t).Ports {
		if p.Type == intstr.String && cp.Name == p.StrVal || p.Type == intstr.Int && cp.ContainerPort == p.IntVal {
			return cp, true
		}
	}
	return corev1.ContainerPort{}, false
}

func TestPodsAreHardened(t *testing.T) {
	for _, w := range loadManifests(t).workloads() {
		pod, c := w.template.Spec, w.container(t)
		p, s := pod.SecurityContext, c.SecurityContext
		if p == nil || p.RunAsNonRoot == nil || !*p.RunAsNonRoot || p.RunAsUser == nil || *p.RunAsUser == 0 || p.SeccompProfile == nil {
			t.Errorf("%s: the pod must not run as root, and under the default seccomp profile", w.name)
		}
		if s == nil || s.ReadOnlyRootFilesystem == nil || !*s.ReadOnlyRootFilesystem || s.AllowPrivilegeEscalation == nil ||
			*s.AllowPrivilegeEscalation || s.Capabilities == nil || !slices.Equal(s.Capabilities.Drop, []corev1.Capability{"ALL"}) {
			t.Errorf("%s: needs a read-only root, no escalation and no capabilities", w.name)
		}
		if pod.AutomountServiceAccountToken == nil || *pod.AutomountServiceAccountToken || pod.EnableServiceLinks == nil || *pod.EnableServiceLinks {
			t.Errorf("%s: must not be given a token of the API, nor variables of services", w.name)
		}
		if c.Resources.Requests.Memory().IsZero() || c.Resources.Limits.Memory().IsZero() || c.Resources.Requests.Cpu().IsZero() {
			t.Errorf("%s: requests and a memory limit are missing", w.name)
		}
		if !pinned.MatchString(c.Image) || strings.HasSuffix(c.Image, ":latest") {
			t.Errorf("%s: the image %s is not pinned", w.name, c.Image)
		}
	}
}

// TestImageUserOwnsTheVolumes: pods run as the user that the image is made for.
func TestImageUserOwnsTheVolumes(t *testing.T) {
	d := loadDockerfile(t)
	for _, w := range loadManifests(t).workloads() {
		target, ours := strings.CutPrefix(strings.Split(w.container(t).Image, ":")[0], "aliquot/")
		if !ours {
			continue
		}
		p := w.template.Spec.SecurityContext
		if got := fmt.Sprintf("%d:%d", *p.RunAsUser, *p.RunAsGroup); got != d.image(t, target).user || *p.FSGroup != *p.RunAsGroup {
			t.Errorf("%s runs as %s with fsGroup %d; the image's user is %s", w.name, got, *p.FSGroup, d.image(t, target).user)
		}
		var exposed []string
		for _, cp := range w.container(t).Ports {
			protocol := strings.ToLower(string(cp.Protocol))
			if protocol == "" {
				protocol = "tcp"
			}
			exposed = append(exposed, fmt.Sprintf("%d/%s", cp.ContainerPort, protocol))
		}
		if !slices.Equal(exposed, d.image(t, target).exposed) {
			t.Errorf("%s has the ports %v, its image exposes %v", w.name, exposed, d.image(t, target).exposed)
		}
	}
}

func TestSelectors(t *testing.T) {
	m := loadManifests(t)
	for _, w := range m.workloads() {
		if got := m.selected(t, w.selector); len(got) != 1 || got[0].name != w.name {
			t.Errorf("%s selects the pods of %d workloads", w.name, len(got))
		}
	}
	for _, s := range m.services {
		got := m.selected(t, &metav1.LabelSelector{MatchLabels: s.Spec.Selector})
		if len(got) != 1 {
			t.Fatalf("the service %s selects the pods of %d workloads", s.Name, len(got))
		}
		for _, p := range s.Spec.Ports {
			cp, found := got[0].port(t, p.TargetPort)
			if !found || protocol(cp.Protocol) != protocol(p.Protocol) || cp.ContainerPort != p.Port {
				t.Errorf("the service %s sends %s %d to %s, which is no such port of %s", s.Name, protocol(p.Protocol), p.Port, p.TargetPort.String(), got[0].name)
			}
		}
	}
	for _, b := range m.budgets {
		got := m.selected(t, b.Spec.Selector)
		if len(got) != 1 || len(got[0].pods) != 3 || b.Spec.MinAvailable == nil || b.Spec.MinAvailable.IntValue() != 2 {
			t.Errorf("the disruption budget %s must keep two of three coordinators", b.Name)
		}
	}
	if len(m.budgets) != 1 {
		t.Errorf("%d disruption budgets", len(m.budgets))
	}
}

func protocol(p corev1.Protocol) corev1.Protocol {
	if p == "" {
		return corev1.ProtocolTCP
	}
	return p
}

func TestProbes(t *testing.T) {
	for _, w := range loadManifests(t).workloads() {
		c := w.container(t)
		for kind, p := range map[string]*corev1.Probe{"startup": c.StartupProbe, "liveness": c.LivenessProbe, "readiness": c.ReadinessProbe} {
			if p == nil {
				t.Errorf("%s: no %s probe", w.name, kind)
				continue
			}
			var port *intstr.IntOrString
			switch {
			case p.HTTPGet != nil:
				port = &p.HTTPGet.Port
				want := map[string]string{"startup": "/healthz", "liveness": "/healthz", "readiness": "/readyz"}[kind]
				if p.HTTPGet.Path != want {
					t.Errorf("%s: the %s probe asks %s, want %s", w.name, kind, p.HTTPGet.Path, want)
				}
			case p.TCPSocket != nil:
				port = &p.TCPSocket.Port
			}
			if port == nil {
				continue
			}
			if _, found := w.port(t, *port); !found {
				t.Errorf("%s: the %s probe asks port %s, which the container does not have", w.name, kind, port.String())
			}
		}
	}
}

func TestVolumes(t *testing.T) {
	m := loadManifests(t)
	for _, w := range m.workloads() {
		there := map[string]bool{}
		for _, v := range w.template.Spec.Volumes {
			there[v.Name] = true
			if v.ConfigMap != nil && !slices.ContainsFunc(m.configMaps, func(c *corev1.ConfigMap) bool { return c.Name == v.ConfigMap.Name }) {
				t.Errorf("%s: there is no ConfigMap %s", w.name, v.ConfigMap.Name)
			}
			if v.PersistentVolumeClaim != nil && !slices.ContainsFunc(m.claims, func(c *corev1.PersistentVolumeClaim) bool {
				return c.Name == v.PersistentVolumeClaim.ClaimName
			}) {
				t.Errorf("%s: there is no claim %s", w.name, v.PersistentVolumeClaim.ClaimName)
			}
		}
		for _, c := range w.claims {
			there[c.Name] = true
		}
		for _, mount := range w.container(t).VolumeMounts {
			if !there[mount.Name] {
				t.Errorf("%s mounts %s, which is no volume of the pod", w.name, mount.Name)
			}
			delete(there, mount.Name)
		}
		for name := range there {
			t.Errorf("%s: the volume %s is mounted nowhere", w.name, name)
		}
	}
}

// TestCoordinatorsCanForm: what Raft and the first boot rely on.
func TestCoordinatorsCanForm(t *testing.T) {
	m := loadManifests(t)
	if len(m.statefulSets) != 1 {
		t.Fatalf("%d StatefulSets", len(m.statefulSets))
	}
	s := m.statefulSets[0]
	if s.Spec.PodManagementPolicy != appsv1.ParallelPodManagement {
		t.Error("pods that wait for the one before to be ready never form a cluster: podManagementPolicy must be Parallel")
	}
	i := slices.IndexFunc(m.services, func(svc *corev1.Service) bool { return svc.Name == s.Spec.ServiceName })
	if i < 0 || m.services[i].Spec.ClusterIP != corev1.ClusterIPNone || !m.services[i].Spec.PublishNotReadyAddresses {
		t.Error("the StatefulSet needs a headless service that publishes addresses before they are ready")
	}
	var want []string
	for n := range *s.Spec.Replicas {
		want = append(want, fmt.Sprintf("%s-%d.%s:7402", s.Name, n, s.Spec.ServiceName))
	}
	args := s.Spec.Template.Spec.Containers[0].Args
	if !slices.Contains(args, "--join="+strings.Join(want, ",")) {
		t.Errorf("--join must be %v; the arguments are %v", want, args)
	}
	if !slices.Contains(args, fmt.Sprintf("--bootstrap-expect=%d", *s.Spec.Replicas)) {
		t.Errorf("--bootstrap-expect must be the %d replicas; the arguments are %v", *s.Spec.Replicas, args)
	}
	affinity := s.Spec.Template.Spec.Affinity
	if affinity == nil || affinity.PodAntiAffinity == nil || len(affinity.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution) == 0 {
		t.Error("two coordinators could share a machine")
	}
}

// TestOneOfEachInARegion: neither the daemon nor its Redis may ever be two, not even
// during an update, and Redis keeps nothing.
func TestOneOfEachInARegion(t *testing.T) {
	m := loadManifests(t)
	if len(m.deployments) != 2 {
		t.Errorf("%d deployments, want a Redis and a daemon", len(m.deployments))
	}
	for _, d := range m.deployments {
		if *d.Spec.Replicas != 1 || d.Spec.Strategy.Type != appsv1.RecreateDeploymentStrategyType {
			t.Errorf("%s: one replica and the strategy Recreate, please", d.Name)
		}
		if c := d.Spec.Template.Spec.Containers[0]; c.Name == "redis" {
			checkRedis(t, d.Name, c.Args)
			if d.Spec.Template.Spec.Volumes[0].EmptyDir == nil {
				t.Errorf("%s would keep its data over a restart", d.Name)
			}
		}
	}
}
