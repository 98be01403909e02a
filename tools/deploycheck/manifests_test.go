package deploycheck

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/json"
	yamlstream "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"
)

const manifestDir = "deploy/kubernetes"

// manifests is every object of deploy/kubernetes, by kind.
type manifests struct {
	namespaces   []*corev1.Namespace
	configMaps   []*corev1.ConfigMap
	services     []*corev1.Service
	claims       []*corev1.PersistentVolumeClaim
	deployments  []*appsv1.Deployment
	statefulSets []*appsv1.StatefulSet
	budgets      []*policyv1.PodDisruptionBudget
	policies     []*networkingv1.NetworkPolicy
}

// decodeManifests is as strict as the API server with fieldValidation=Strict: an
// unknown or doubled field is an error.
func decodeManifests(text []byte, into *manifests) error {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, appsv1.AddToScheme, policyv1.AddToScheme, networkingv1.AddToScheme} {
		if err := add(scheme); err != nil {
			return err
		}
	}
	decoder := json.NewSerializerWithOptions(json.DefaultMetaFactory, scheme, scheme, json.SerializerOptions{Yaml: true, Strict: true})
	documents := yamlstream.NewYAMLReader(bufio.NewReader(bytes.NewReader(text)))
	for {
		document, err := documents.Read()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		object, _, err := decoder.Decode(document, nil, nil)
		if err != nil {
			return err
		}
		if err := into.add(object); err != nil {
			return err
		}
	}
}

func (m *manifests) add(object runtime.Object) error {
	switch o := object.(type) {
	case *corev1.Namespace:
		m.namespaces = append(m.namespaces, o)
	case *corev1.ConfigMap:
		m.configMaps = append(m.configMaps, o)
	case *corev1.Service:
		m.services = append(m.services, o)
	case *corev1.PersistentVolumeClaim:
		m.claims = append(m.claims, o)
	case *appsv1.Deployment:
		m.deployments = append(m.deployments, o)
	case *appsv1.StatefulSet:
		m.statefulSets = append(m.statefulSets, o)
	case *policyv1.PodDisruptionBudget:
		m.budgets = append(m.budgets, o)
	case *networkingv1.NetworkPolicy:
		m.policies = append(m.policies, o)
	default:
		return errors.New("an object of a kind that this test does not look into")
	}
	return nil
}

func loadManifests(t *testing.T) *manifests {
	t.Helper()
	m := &manifests{}
	for _, file := range manifestFiles(t) {
		if filepath.Base(file) == "kustomization.yaml" {
			continue
		}
		if err := decodeManifests(read(t, file), m); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
	}
	return m
}

func manifestFiles(t *testing.T) (files []string) {
	t.Helper()
	err := filepath.WalkDir(filepath.Join(repository(t), manifestDir), func(path string, entry fs.DirEntry, err error) error {
		if err == nil && strings.HasSuffix(path, ".yaml") {
			files = append(files, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// kustomization is all that the kustomizations here may say.
type kustomization struct {
	APIVersion string   `json:"apiVersion"`
	Kind       string   `json:"kind"`
	Namespace  string   `json:"namespace"`
	Resources  []string `json:"resources"`
	Images     []struct {
		Name   string `json:"name"`
		NewTag string `json:"newTag"`
	} `json:"images,omitempty"`
}

// TestKustomizations: each lists exactly what lies beside it.
func TestKustomizations(t *testing.T) {
	found := 0
	for _, file := range manifestFiles(t) {
		if filepath.Base(file) != "kustomization.yaml" {
			continue
		}
		found++
		var k kustomization
		if err := yaml.UnmarshalStrict(read(t, file), &k); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		if k.APIVersion != "kustomize.config.k8s.io/v1beta1" || k.Kind != "Kustomization" || k.Namespace != "aliquot" {
			t.Errorf("%s: %s %s for the namespace %q", file, k.APIVersion, k.Kind, k.Namespace)
		}
		if want := beside(t, file); !slices.Equal(slices.Sorted(slices.Values(k.Resources)), want) {
			t.Errorf("%s lists %v; beside it are %v", file, k.Resources, want)
		}
	}
	if found != 3 {
		t.Errorf("%d kustomizations, want 3", found)
	}
}

// beside are the manifests and the folders next to a kustomization.
func beside(t *testing.T, file string) (names []string) {
	t.Helper()
	for _, pattern := range []string{"*.yaml", "*/kustomization.yaml"} {
		matches, err := filepath.Glob(filepath.Join(filepath.Dir(file), pattern))
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range matches {
			switch name := filepath.Base(m); {
			case pattern != "*.yaml":
				names = append(names, filepath.Base(filepath.Dir(m)))
			case name != "kustomization.yaml":
				names = append(names, name)
			}
		}
	}
	slices.Sort(names)
	return names
}

// TestMistakesInManifestsAreFound shows that decoding refuses what it should.
func TestMistakesInManifestsAreFound(t *testing.T) {
	for name, text := range map[string]string{
		"unknown field": "apiVersion: v1\nkind: Service\nmetadata: {name: a}\nspec: {clusterIp: None}\n",
		"field twice":   "apiVersion: v1\nkind: Service\nmetadata: {name: a}\nspec:\n  clusterIP: None\n  clusterIP: None\n",
		"wrong type":    "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: a}\nspec: {replicas: one}\n",
		"old version":   "apiVersion: policy/v1beta1\nkind: PodDisruptionBudget\nmetadata: {name: a}\n",
		"no kind":       "apiVersion: v1\nmetadata: {name: a}\n",
		"other kind":    "apiVersion: v1\nkind: Secret\nmetadata: {name: a}\n",
		"quantity":      "apiVersion: v1\nkind: PersistentVolumeClaim\nmetadata: {name: a}\nspec: {resources: {requests: {storage: 1Gb}}}\n",
	} {
		if err := decodeManifests([]byte(text), &manifests{}); err == nil {
			t.Errorf("%s: %q was decoded", name, text)
		}
	}
}
