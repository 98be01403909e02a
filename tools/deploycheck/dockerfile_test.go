package deploycheck

import (
	"bytes"
	"fmt"
	"go/version"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/moby/buildkit/frontend/dockerfile/instructions"
	"github.com/moby/buildkit/frontend/dockerfile/linter"
	"github.com/moby/buildkit/frontend/dockerfile/parser"
)

const dockerfilePath = "deploy/docker/Dockerfile"

// image is what a target of the Dockerfile comes to, its bases in the file included.
type image struct {
	base       string // outside the file
	user       string
	env        map[string]string
	exposed    []string // port/protocol
	entrypoint []string
	health     []string
	copies     []copied
}

// copied is one source of a COPY --from.
type copied struct{ stage, from, to, owner string }

// dockerfile is the parsed file.
type dockerfile struct {
	stages []instructions.Stage
	args   map[string]string // of the head of the file
}

// parseDockerfile runs BuildKit's parser with its stable lint rules on; findings are
// returned, not fatal.
func parseDockerfile(text []byte) (*dockerfile, []string, error) {
	parsed, err := parser.Parse(bytes.NewReader(text))
	if err != nil {
		return nil, nil, err
	}
	var findings []string
	for _, w := range parsed.Warnings {
		findings = append(findings, w.Short)
	}
	lint := linter.New(&linter.Config{
		Warn: func(rule, _, _, text string, where []parser.Range) {
			findings = append(findings, fmt.Sprintf("%s: %s at %v", rule, text, where))
		},
	})
	stages, metaArgs, err := instructions.Parse(parsed.AST, lint)
	if err != nil {
		return nil, findings, err
	}
	d := &dockerfile{stages: stages, args: map[string]string{}}
	for _, command := range metaArgs {
		for _, a := range command.Args {
			d.args[a.Key] = a.ValueString()
		}
	}
	return d, findings, nil
}

func loadDockerfile(t *testing.T) *dockerfile {
	t.Helper()
	d, findings, err := parseDockerfile(read(t, filepath.Join(repository(t), dockerfilePath)))
	if err != nil {
		t.Fatalf("%s: %v", dockerfilePath, err)
	}
	for _, f := range findings {
		t.Errorf("%s: %s", dockerfilePath, f)
	}
	return d
}

// image follows a target down to its base.
func (d *dockerfile) image(t *testing.T, target string) image {
	t.Helper()
	i, found := instructions.HasStage(d.stages, target)
	if !found {
		t.Fatalf("%s has no target %q", dockerfilePath, target)
	}
	stage := d.stages[i]
	out := image{base: d.expand(stage.BaseName), env: map[string]string{}}
	if _, ours := instructions.HasStage(d.stages[:i], stage.BaseName); ours {
		out = d.image(t, stage.BaseName)
	}
	for _, command := range stage.Commands {
		out.apply(t, command)
	}
	return out
}

func (im *image) apply(t *testing.T, command instructions.Command) {
	t.Helper()
	switch c := command.(type) {
	case *instructions.UserCommand:
		im.user = c.User
	case *instructions.EnvCommand:
		for _, pair := range c.Env {
			im.env[pair.Key] = pair.Value
		}
	case *instructions.ExposeCommand:
		im.exposed = append(im.exposed, c.Ports...)
	case *instructions.EntrypointCommand:
		if c.PrependShell {
			t.Errorf("ENTRYPOINT %v is in the shell form, and the image has no shell", c.CmdLine)
		}
		im.entrypoint = c.CmdLine
	case *instructions.HealthCheckCommand:
		if c.Health.Test[0] != "CMD" {
			t.Errorf("HEALTHCHECK %v needs a shell, and the image has none", c.Health.Test)
		}
		im.health = c.Health.Test[1:]
	case *instructions.CopyCommand:
		for _, source := range c.SourcePaths {
			im.copies = append(im.copies, copied{c.From, source, c.DestPath, c.Chown})
		}
	case *instructions.RunCommand:
		t.Errorf("RUN %v in a final stage: its base has no shell", c.CmdLine)
	}
}

// expand replaces the file's own ARGs in a base's name.
func (d *dockerfile) expand(text string) string {
	for key, value := range d.args {
		text = strings.ReplaceAll(text, "${"+key+"}", value)
	}
	return text
}

// buildBase is the base of the build stage, with its tag.
func (d *dockerfile) buildBase(t *testing.T) string {
	t.Helper()
	i, found := instructions.HasStage(d.stages, "build")
	if !found {
		t.Fatalf("%s has no stage \"build\"", dockerfilePath)
	}
	return d.expand(d.stages[i].BaseName)
}

var (
	numericUser = regexp.MustCompile(`^([1-9][0-9]*):([1-9][0-9]*)$`)
	// pinned is a tag that names a version or a release, not what is newest today.
	pinned = regexp.MustCompile(`^[^:@]+:[^:@]*[0-9a-z]`)
)

func TestImages(t *testing.T) {
	d := loadDockerfile(t)
	for target, ports := range map[string][]string{
		"coordinator": {"7400/tcp", "7401/tcp", "7402/tcp", "7402/udp", "7403/tcp"},
		"regional":    {"7500/tcp", "7501/tcp", "7503/tcp"},
		"cli":         nil,
	} {
		im := d.image(t, target)
		if !numericUser.MatchString(im.user) {
			t.Errorf("%s: USER %q must be two numbers that are not 0: Kubernetes cannot tell whether a name is root", target, im.user)
		}
		if im.base != "scratch" {
			t.Errorf("%s: base %q; a static program needs none", target, im.base)
		}
		if len(im.entrypoint) != 1 {
			t.Errorf("%s: ENTRYPOINT %v, want one program", target, im.entrypoint)
		}
		if !slices.Equal(im.exposed, ports) {
			t.Errorf("%s: EXPOSE %v, want %v", target, im.exposed, ports)
		}
		if (im.health != nil) != (ports != nil) {
			t.Errorf("%s: HEALTHCHECK %v, and its ports are %v", target, im.health, ports)
		}
		for _, c := range im.copies {
			if c.stage != "build" {
				t.Errorf("%s: COPY %s is not from the build stage", target, c.from)
			}
			if c.owner != "" && c.owner != im.user {
				t.Errorf("%s: %s belongs to %s, and the program runs as %s", target, c.to, c.owner, im.user)
			}
		}
	}
}

// TestCompilerIsNewEnough: the toolchain of the image can build this module, which an
// image without network access to others' toolchains must.
func TestCompilerIsNewEnough(t *testing.T) {
	base := loadDockerfile(t).buildBase(t)
	tag := regexp.MustCompile(`^golang:([0-9.]+)-`).FindStringSubmatch(base)
	needed := regexp.MustCompile(`(?m)^go ([0-9.]+)$`).FindSubmatch(read(t, filepath.Join(repository(t), "go.mod")))
	if tag == nil || needed == nil {
		t.Fatalf("base %q, go.mod's line %q", base, needed)
	}
	if version.Compare("go"+tag[1], "go"+string(needed[1])) < 0 {
		t.Errorf("the image builds with Go %s, go.mod needs %s", tag[1], needed[1])
	}
}

// TestMistakesInADockerfileAreFound shows that the checks above can fail.
func TestMistakesInADockerfileAreFound(t *testing.T) {
	for name, text := range map[string]string{
		"unknown instruction": "FROM a:1\nRUNN true\n",
		"unknown flag":        "FROM a:1\nCOPY --form=b x y\n",
		"name in capitals":    "FROM a:1 AS X\n",
		"casing of AS":        "FROM a:1 as x\n",
		"no base":             "RUN true\n",
	} {
		if _, findings, err := parseDockerfile([]byte(text)); err == nil && len(findings) == 0 {
			t.Errorf("%s: nothing was found wrong with %q", name, text)
		}
	}
}
