package plants

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// Bench builds and tries plants of the module at Root. Its methods may be called from
// several goroutines.
type Bench struct {
	Root string
	dir  string // for what is built
	// whole is the worker without any plant.
	whole string
}

// NewBench makes a bench that keeps what it builds in dir.
func NewBench(ctx context.Context, root, dir string) (*Bench, error) {
	b := &Bench{Root: root, dir: dir, whole: filepath.Join(dir, "whole")}
	return b, b.compile(ctx, b.whole)
}

// compile builds the worker.
func (b *Bench) compile(ctx context.Context, out string, flags ...string) error {
	args := append([]string{"build", "-ldflags=-s -w", "-o", out}, flags...)
	_, err := b.output(ctx, "go", append(args, "./internal/sim/plants/worker")...)
	return err
}

// output runs a command at the root; its error includes what it complained of.
func (b *Bench) output(ctx context.Context, name string, args ...string) ([]byte, error) {
	var errs bytes.Buffer
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir, cmd.Stderr = b.Root, &errs
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("%s: %w\n%s", filepath.Base(name), err, errs.String())
	}
	return out, nil
}

// build compiles the worker with a plant in it, in a folder of its own, and returns its
// path and that of the list of changed files.
func (b *Bench) build(ctx context.Context, p Plant) (worker, overlay string, err error) {
	dir, err := os.MkdirTemp(b.dir, p.Name)
	if err != nil {
		return "", "", err
	}
	overlay, err = p.overlay(b.Root, dir)
	if err != nil {
		return "", "", err
	}
	worker = filepath.Join(dir, "worker")
	if err := b.compile(ctx, worker, "-overlay", overlay); err != nil {
		return "", "", fmt.Errorf("plant %s has to follow the code: %w", p.Name, err)
	}
	return worker, overlay, nil
}
