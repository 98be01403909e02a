package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"
)

const (
	// changeWithin is what a change of a limit may take to be in force in every region.
	changeWithin = 2 * time.Second
	changeRTT    = "100ms"
	devRegions   = 3
	// devPorts is the first port of `aliquot dev`, and how many from there on it may use.
	devPorts, devBlock = 7400, 200
)

// change is how long a change of rules takes from the command until every region
// decides by it, with a round trip of 100 ms between regions and coordinators.
func (b *bench) change(ctx context.Context) ([]row, error) {
	offset, err := freeOffset()
	if err != nil {
		return nil, err
	}
	file := filepath.Join(b.dir, "change.yaml")
	if err := os.WriteFile(file, []byte(ourRules), 0o600); err != nil {
		return nil, err
	}
	at := func(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(offset+port)) }
	ops := make([]string, devRegions)
	for i := range ops {
		ops[i] = at(7503 + 10*i)
	}
	ready := func() error {
		for _, address := range ops {
			if err := b.leased(address); err != nil {
				return err
			}
		}
		return nil
	}
	if _, err := b.start(ctx, &server{name: "aliquot dev"}, nil, ready, filepath.Join(b.dir, "aliquot"),
		"dev", "--rtt", changeRTT, "--port-offset", strconv.Itoa(offset), "--rules", file); err != nil {
		return nil, err
	}
	var took []time.Duration
	for i := range b.pairs {
		d, err := b.changeOnce(ctx, at(7400), ops, fmt.Sprintf("%s  - {id: change, match: {attributes: {change: yes}}, params: {capacity: %d, refill_rate: 1}}\n", ourRules, 100+i))
		if err != nil {
			return nil, err
		}
		took = append(took, d)
	}
	slices.Sort(took)
	longest := took[len(took)-1]
	return []row{{what: "a change of rules until every region decides by it, 100 ms RTT", measured: fmt.Sprintf("median %v, longest of %d %v",
		took[len(took)/2].Round(time.Millisecond), len(took), longest.Round(time.Millisecond)), goal: "< 2 s", met: longest < changeWithin}}, nil
}

// freeOffset is a port offset for `aliquot dev` at which its ports are free, below those
// that systems give to clients.
func freeOffset() (int, error) {
	const first, last, tries = 12_000, 30_000, 100
	for range tries {
		offset := first + rand.IntN(last-first) - devPorts
		free := true
		for port := devPorts; port < devPorts+devBlock && free; port++ {
			l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(offset+port)))
			if free = err == nil; free {
				l.Close()
			}
		}
		if free {
			return offset, nil
		}
	}
	return 0, fmt.Errorf("no %d free ports in a row from %d to %d", devBlock, first, last)
}

// changeOnce applies rules and waits until every region has them.
func (b *bench) changeOnce(ctx context.Context, coordinator string, ops []string, yaml string) (time.Duration, error) {
	began := time.Now()
	var applied struct {
		Version string `json:"version"`
	}
	if err := b.call(ctx, coordinator, "/aliquot.v1.RuleService/ApplyRules", map[string]string{"yaml": yaml, "author": "goals"}, &applied); err != nil {
		return 0, err
	}
	want, err := strconv.ParseUint(applied.Version, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("version %q: %w", applied.Version, err)
	}
	for _, address := range ops {
		for {
			have, err := b.rulesVersion(ctx, address)
			if err != nil {
				return 0, err
			}
			if have >= want {
				break
			}
			if time.Since(began) > readyWithin {
				return 0, fmt.Errorf("region at %s still decides by version %d, not %d", address, have, want)
			}
			time.Sleep(time.Millisecond)
		}
	}
	return time.Since(began), nil
}

func (b *bench) rulesVersion(ctx context.Context, ops string) (uint64, error) {
	var now struct {
		Rules uint64 `json:"rules_version"`
	}
	err := b.get(ctx, "http://"+ops+"/readyz", &now)
	return now.Rules, err
}

func (b *bench) call(ctx context.Context, address, path string, in, out any) error {
	body, err := json.Marshal(in)
	if err != nil {
		return err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+address+path, bytes.NewReader(body))
	if err != nil {
		return err
	}
	request.Header.Set("Content-Type", "application/json")
	return b.answerTo(&http.Client{Timeout: readyWithin}, request, out)
}

func (b *bench) get(ctx context.Context, url string, out any) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	return b.answerTo(&b.http, request, out)
}

func (b *bench) answerTo(client *http.Client, request *http.Request, out any) error {
	answer, err := client.Do(request)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", request.URL, answer.Status)
	}
	return json.NewDecoder(answer.Body).Decode(out)
}
