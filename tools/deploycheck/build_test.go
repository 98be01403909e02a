package deploycheck

import (
	"debug/buildinfo"
	"debug/elf"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/moby/buildkit/frontend/dockerfile/instructions"
)

// built is the outcome of the Dockerfile's build stage, made on this machine.
type built struct {
	file    *dockerfile
	workdir string // in the image
	dir     string // here
}

// buildImages runs every RUN of the build stage as it is written, in a copy of the
// build context, for this machine's platform.
func buildImages(t *testing.T) built {
	t.Helper()
	b := built{file: loadDockerfile(t), dir: buildContext(t)}
	i, found := instructions.HasStage(b.file.stages, "build")
	if !found {
		t.Fatalf("%s has no stage \"build\"", dockerfilePath)
	}
	env := map[string]string{"TARGETOS": runtime.GOOS, "TARGETARCH": runtime.GOARCH}
	for _, command := range b.file.stages[i].Commands {
		switch c := command.(type) {
		case *instructions.WorkdirCommand:
			b.workdir = c.Path
		case *instructions.ArgCommand:
			for _, a := range c.Args {
				if a.Value != nil {
					env[a.Key] = *a.Value
				}
			}
		case *instructions.CopyCommand:
			if c.From != "" || len(c.SourcePaths) != 1 || c.SourcePaths[0] != "." || c.DestPath != "." {
				t.Fatalf("COPY %v %s: this test knows only `COPY . .`", c.SourcePaths, c.DestPath)
			}
		case *instructions.RunCommand:
			b.run(t, c, env)
		default:
			t.Fatalf("%s: this test cannot do %T of the build stage", dockerfilePath, c)
		}
	}
	return b
}

func (b built) run(t *testing.T, c *instructions.RunCommand, env map[string]string) {
	t.Helper()
	if !c.PrependShell || len(c.CmdLine) != 1 {
		t.Fatalf("RUN %v: this test knows only the shell form", c.CmdLine)
	}
	cmd := exec.Command("/bin/sh", "-c", c.CmdLine[0])
	cmd.Dir = b.dir
	cmd.Env = append(os.Environ(), "GOFLAGS=", "GOWORK=off")
	for key, value := range env {
		cmd.Env = append(cmd.Env, key+"="+value)
	}
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("RUN %s: %v\n%s", c.CmdLine[0], err, out)
	}
}

// builderCertificates are in the builder's image, and stand where Go looks for them.
const builderCertificates = "/etc/ssl/certs/ca-certificates.crt"

// image adds to a target the place of each of its files on this machine.
func (b built) image(t *testing.T, target string) (image, map[string]string) {
	t.Helper()
	im, files := b.file.image(t, target), map[string]string{}
	for _, c := range im.copies {
		if c.from == builderCertificates && c.to == builderCertificates {
			continue
		}
		inside, ok := strings.CutPrefix(c.from, b.workdir+"/")
		if !ok {
			t.Fatalf("%s: COPY --from=build %s is not below %s", target, c.from, b.workdir)
		}
		here := filepath.Join(b.dir, filepath.FromSlash(inside))
		if _, err := os.Stat(here); err != nil {
			t.Fatalf("%s: COPY --from=build %s: the build stage makes no such thing: %v", target, c.from, err)
		}
		files[path.Clean(c.to)] = here
	}
	return im, files
}

// checkProgram: static, reproducible, and it knows what it was built from.
func checkProgram(t *testing.T, file string) {
	t.Helper()
	info, err := buildinfo.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	settings := map[string]string{}
	for _, s := range info.Settings {
		settings[s.Key] = s.Value
	}
	if settings["CGO_ENABLED"] != "0" || settings["-trimpath"] != "true" {
		t.Errorf("%s is not a static, reproducible build: %v", file, settings)
	}
	if info, err := os.Stat(filepath.Join(repository(t), ".git")); err == nil && info.IsDir() && settings["vcs.revision"] == "" {
		t.Errorf("%s does not know its commit: %v", file, settings)
	}
	if runtime.GOOS != "linux" {
		return
	}
	f, err := elf.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for _, p := range f.Progs {
		if p.Type == elf.PT_INTERP || p.Type == elf.PT_DYNAMIC {
			t.Errorf("%s is linked dynamically; a static base cannot run it", file)
		}
	}
}

// container makes a container of an image; env is on top of the image's own.
func (b built) container(t *testing.T, target, name string, args []string, env map[string]string) *container {
	t.Helper()
	im, files := b.image(t, target)
	c := &container{
		name: name, host: name, kind: target, program: files[im.entrypoint[0]],
		args: args, env: maps.Clone(im.env), files: map[string]string{}, programs: files,
	}
	maps.Copy(c.env, env)
	if im.health != nil {
		c.health = append(c.health, im.health)
	}
	return c
}
