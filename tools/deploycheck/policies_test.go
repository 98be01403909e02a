package deploycheck

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
)

// TestNetworkPolicies: everything is closed, then opened by name; Redis only to the
// daemon of its region.
func TestNetworkPolicies(t *testing.T) {
	m := loadManifests(t)
	closed := false
	for _, p := range m.policies {
		targets := m.selected(t, &p.Spec.PodSelector)
		if len(p.Spec.Ingress) == 0 {
			closed = closed || len(targets) == len(m.workloads())
			continue
		}
		if len(targets) != 1 {
			t.Errorf("the policy %s selects the pods of %d workloads", p.Name, len(targets))
			continue
		}
		for _, rule := range p.Spec.Ingress {
			checkRule(t, m, p.Name, targets[0], rule)
		}
	}
	if !closed {
		t.Error("no policy closes the whole namespace")
	}
}

func checkRule(t *testing.T, m *manifests, policy string, target workload, rule networkingv1.NetworkPolicyIngressRule) {
	t.Helper()
	if len(rule.Ports) == 0 {
		t.Errorf("the policy %s opens every port", policy)
	}
	for _, p := range rule.Ports {
		cp, found := target.port(t, *p.Port)
		if !found || p.Protocol != nil && protocol(cp.Protocol) != *p.Protocol || p.Protocol == nil && protocol(cp.Protocol) != corev1.ProtocolTCP {
			t.Errorf("the policy %s opens %s, which is no such port of %s", policy, p.Port.String(), target.name)
		}
	}
	for _, from := range rule.From {
		if from.PodSelector == nil {
			continue
		}
		callers := m.selected(t, from.PodSelector)
		if len(callers) == 0 {
			t.Errorf("the policy %s admits pods that do not exist", policy)
		}
		if strings.HasPrefix(target.name, "redis-") && (len(rule.From) != 1 || len(callers) != 1 || !strings.HasPrefix(callers[0].name, "regional-")) {
			t.Errorf("the policy %s admits more than the region's daemon to its Redis", policy)
		}
	}
	if strings.HasPrefix(target.name, "redis-") && len(rule.From) == 0 {
		t.Errorf("the policy %s admits everyone to a Redis", policy)
	}
}
