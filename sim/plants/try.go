package plants

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// Patience is how much time of a core a plant may take to be caught.
const Patience = 60 * time.Second

// Bench builds and tries plants of the module at Root. Its methods may be called
// from several goroutines.
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
	_, err := b.output(ctx, "go", append(args, "./sim/plants/worker")...)
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

// Build compiles the worker with a plant in it and returns its path.
func (b *Bench) Build(ctx context.Context, p Plant) (string, error) {
	dir := filepath.Join(b.dir, p.Name)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", err
	}
	overlay, err := p.overlay(b.Root, dir)
	if err != nil {
		return "", err
	}
	out := filepath.Join(dir, "worker")
	if err := b.compile(ctx, out, "-overlay", overlay); err != nil {
		return "", fmt.Errorf("plant %s has to follow the code: %w", p.Name, err)
	}
	return out, nil
}

// sighting is what a worker prints.
type sighting struct {
	Seed   uint64 `json:"seed"`
	Worlds int    `json:"worlds"`
	What   string `json:"what"`
	At     int64  `json:"at_ms"`
	Worked int64  `json:"worked_ms"`
}

func (b *Bench) live(ctx context.Context, worker string, seed uint64, w World, flags ...string) (sighting, error) {
	args := append([]string{
		"-seed", strconv.FormatUint(seed, 10), "-regions", strconv.Itoa(w.Regions), "-keys", strconv.Itoa(w.Keys),
		"-faults", strings.Join(w.Faults, ","), fmt.Sprintf("-just=%t", w.Just),
		"-lease", w.Lease.String(), "-rho", strconv.Itoa(w.RhoPPM), "-burst", strconv.Itoa(w.Burst), "-rate", strconv.Itoa(w.Rate),
	}, flags...)
	out, err := b.output(ctx, worker, args...)
	if err != nil {
		return sighting{}, err
	}
	var s sighting
	return s, json.Unmarshal(out, &s)
}

// Verdict is what became of one plant.
type Verdict struct {
	Plant   Plant
	Caught  bool
	Seed    uint64        // of the world that was broken
	Worlds  int           // lived through for it
	Virtual time.Duration // in the life of that world
	What    string        // was broken
	Worked  time.Duration // time of a core that it took, without the build
}

// Simulate looks for a world that a plant breaks and that is whole without it, from a
// seed upwards and for at most the given time of a core.
func (b *Bench) Simulate(ctx context.Context, p Plant, seed uint64, limit time.Duration) (Verdict, error) {
	v := Verdict{Plant: p}
	worker, err := b.Build(ctx, p)
	if err != nil {
		return v, err
	}
	defer os.Remove(worker)
	for v.Worked < limit {
		s, err := b.live(ctx, worker, seed, p.World, "-for", (limit - v.Worked).String())
		if err != nil {
			return v, err
		}
		v.Worked += time.Duration(s.Worked) * time.Millisecond
		v.Worlds += s.Worlds
		if s.What == "" {
			return v, nil
		}
		clean, err := b.live(ctx, b.whole, s.Seed, p.World, "-worlds", "1")
		if err != nil {
			return v, err
		}
		if clean.What == "" {
			v.Caught, v.Seed, v.What = true, s.Seed, s.What
			v.Virtual = time.Duration(s.At) * time.Millisecond
			return v, nil
		}
		seed = s.Seed + 1
	}
	return v, nil
}
