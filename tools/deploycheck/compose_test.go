package deploycheck

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/compose-spec/compose-go/v2/graph"
	"github.com/compose-spec/compose-go/v2/loader"
	"github.com/compose-spec/compose-go/v2/types"
	"github.com/sirupsen/logrus"
)

const composePath = "deploy/compose/compose.yaml"

// loadCompose loads as `docker compose` does: schema, interpolation, consistency. The
// environment is empty, so that the file has to stand on its own.
func loadCompose(text []byte, file string) (*types.Project, []string, error) {
	said := &warnings{}
	logger := logrus.StandardLogger()
	logger.SetOutput(io.Discard)
	before := logger.ReplaceHooks(logrus.LevelHooks{})
	logger.AddHook(said)
	defer func() {
		logger.ReplaceHooks(before)
		logger.SetOutput(os.Stderr)
	}()
	project, err := loader.LoadWithContext(context.Background(), types.ConfigDetails{
		WorkingDir:  filepath.Dir(file),
		ConfigFiles: []types.ConfigFile{{Filename: file, Content: text}},
		Environment: types.Mapping{},
	})
	if err == nil {
		err = graph.CheckCycle(project)
	}
	return project, said.texts, err
}

// warnings hears what the loader only logs.
type warnings struct{ texts []string }

func (*warnings) Levels() []logrus.Level {
	return []logrus.Level{logrus.WarnLevel, logrus.ErrorLevel, logrus.FatalLevel, logrus.PanicLevel}
}

func (w *warnings) Fire(e *logrus.Entry) error {
	w.texts = append(w.texts, e.Message)
	return nil
}

func composeProject(t *testing.T) *types.Project {
	t.Helper()
	file := filepath.Join(repository(t), composePath)
	project, said, err := loadCompose(read(t, file), file)
	if err != nil {
		t.Fatalf("%s: %v", composePath, err)
	}
	if len(said) > 0 {
		t.Errorf("%s: the loader warns: %q", composePath, said)
	}
	return project
}

func TestComposeLoads(t *testing.T) {
	names := composeProject(t).ServiceNames()
	want := []string{
		"coordinator-1", "coordinator-2", "coordinator-3", "grafana", "prometheus", "redis-ap-south", "redis-eu-west",
		"redis-us-east", "regional-ap-south", "regional-eu-west", "regional-us-east",
	}
	slices.Sort(names)
	if !slices.Equal(names, want) {
		t.Errorf("services %v, want %v", names, want)
	}
}

// TestMistakesInComposeAreFound shows that the loader refuses what it should.
func TestMistakesInComposeAreFound(t *testing.T) {
	for name, text := range map[string]string{
		"unknown field":      "services: {a: {image: a, restrat: always}}",
		"cycle":              "services: {a: {image: a, depends_on: [b]}, b: {image: b, depends_on: [a]}}",
		"unknown dependency": "services: {a: {image: a, depends_on: [b]}}",
		"unknown network":    "services: {a: {image: a, networks: [n]}}",
		"unknown volume":     "services: {a: {image: a, volumes: [\"data:/v\"]}}",
		"bad port":           "services: {a: {image: a, ports: [\"127.0.0.1:x:80\"]}}",
		"unset variable":     "services: {a: {image: \"a:${UNSET}\"}}",
		"obsolete version":   "version: \"3\"\nservices: {a: {image: a}}",
	} {
		if _, said, err := loadCompose([]byte("name: p\n"+text), "/nowhere/compose.yaml"); err == nil && len(said) == 0 {
			t.Errorf("%s: %q was loaded without a word", name, text)
		}
	}
}

// TestComposeIsHardened: what every service of the file has to say.
func TestComposeIsHardened(t *testing.T) {
	published := map[string]string{}
	for name, s := range composeProject(t).Services {
		if !s.ReadOnly || !slices.Equal(s.CapDrop, []string{"ALL"}) || !slices.Contains(s.SecurityOpt, "no-new-privileges:true") || s.Privileged {
			t.Errorf("%s: read_only, cap_drop ALL and no-new-privileges are missing", name)
		}
		if s.Restart != "unless-stopped" || s.HealthCheck == nil || s.MemLimit == 0 || s.PidsLimit == 0 {
			t.Errorf("%s: needs a restart policy, a health check and limits", name)
		}
		if s.Build == nil && (s.User == "" || strings.HasPrefix(s.User, "0") || strings.HasPrefix(s.User, "root")) {
			t.Errorf("%s: runs as %q", name, s.User)
		}
		if !pinned.MatchString(s.Image) || strings.HasSuffix(s.Image, ":latest") {
			t.Errorf("%s: the image %s is not pinned", name, s.Image)
		}
		for _, p := range s.Ports {
			if p.HostIP != "127.0.0.1" {
				t.Errorf("%s: port %s is published on %q, and there is no TLS", name, p.Published, p.HostIP)
			}
			if other := published[p.Published]; other != "" {
				t.Errorf("%s and %s are both published on %s", name, other, p.Published)
			}
			published[p.Published] = name
		}
	}
}

// TestComposeFiles: everything that is mounted or built from exists.
func TestComposeFiles(t *testing.T) {
	root, d := repository(t), loadDockerfile(t)
	for name, s := range composeProject(t).Services {
		for _, v := range s.Volumes {
			if v.Type != types.VolumeTypeBind {
				continue
			}
			if _, err := os.Stat(v.Source); err != nil {
				t.Errorf("%s mounts what is not there: %v", name, err)
			}
			if !v.ReadOnly {
				t.Errorf("%s may write to %s", name, v.Source)
			}
		}
		if s.Build == nil {
			continue
		}
		if s.Build.Context != root || filepath.Join(root, s.Build.Dockerfile) != filepath.Join(root, dockerfilePath) {
			t.Errorf("%s is built from %s in %s", name, s.Build.Dockerfile, s.Build.Context)
		}
		im := d.image(t, s.Build.Target)
		for _, p := range s.Ports {
			if !slices.ContainsFunc(im.exposed, func(e string) bool { return strings.HasPrefix(e, fmt.Sprintf("%d/", p.Target)) }) {
				t.Errorf("%s publishes %d, and its image exposes %v", name, p.Target, im.exposed)
			}
		}
	}
}
