package deploycheck

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
)

// TestNamesAndLabels: everything is in the namespace and well-formed, which decoding
// alone does not see.
func TestNamesAndLabels(t *testing.T) {
	m := loadManifests(t)
	if len(m.namespaces) != 1 || m.namespaces[0].Labels["pod-security.kubernetes.io/enforce"] != "restricted" {
		t.Error("one namespace, under the restricted profile, please")
	}
	var objects []metav1.Object
	for _, o := range m.services {
		objects = append(objects, o)
		for _, p := range o.Spec.Ports {
			checkName(t, o.Name, validation.IsValidPortName(p.Name))
		}
	}
	for _, o := range m.configMaps {
		objects = append(objects, o)
	}
	for _, o := range m.claims {
		objects = append(objects, o)
	}
	for _, o := range m.deployments {
		objects = append(objects, o)
	}
	for _, o := range m.statefulSets {
		objects = append(objects, o)
	}
	for _, o := range m.budgets {
		objects = append(objects, o)
	}
	for _, o := range m.policies {
		objects = append(objects, o)
	}
	for _, o := range objects {
		if o.GetNamespace() != m.namespaces[0].Name {
			t.Errorf("%s is in the namespace %q", o.GetName(), o.GetNamespace())
		}
		checkName(t, o.GetName(), validation.IsDNS1123Label(o.GetName()))
		for key, value := range o.GetLabels() {
			checkName(t, o.GetName(), append(validation.IsQualifiedName(key), validation.IsValidLabelValue(value)...))
		}
	}
}

func checkName(t *testing.T, object string, problems []string) {
	t.Helper()
	for _, p := range problems {
		t.Errorf("%s: %s", object, p)
	}
}
