package dev

import (
	"bufio"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
)

// link is a region's way to the coordinators, which can be cut.
type link struct {
	next http.RoundTripper
	cut  *atomic.Bool
}

var errCut = errors.New("this region is cut off from the coordinators")

// RoundTrip implements http.RoundTripper. A call that is under way when the link is cut loses its answer.
func (l link) RoundTrip(r *http.Request) (*http.Response, error) {
	if l.cut.Load() {
		if r.Body != nil {
			r.Body.Close()
		}
		return nil, errCut
	}
	answer, err := l.next.RoundTrip(r)
	if err == nil && l.cut.Load() {
		answer.Body.Close()
		return nil, errCut
	}
	return answer, err
}

// obey does what the lines of Config.In say, until they end: "cut REGION" and "heal REGION".
func (h *house) obey() {
	if h.config.In == nil {
		return
	}
	lines := bufio.NewReader(h.config.In)
	for {
		line, more, err := lines.ReadLine()
		words := strings.Fields(string(line))
		for more && err == nil { // the rest of a line that is no command
			_, more, err = lines.ReadLine()
		}
		if len(words) > 0 {
			fmt.Fprintln(h.config.Out, h.command(words))
		}
		if err != nil {
			return
		}
	}
}

// command does what one line says and returns what to print.
func (h *house) command(words []string) string {
	usage := "type: cut REGION or heal REGION, with one of " + strings.Join(h.config.Regions, ", ")
	if len(words) != 2 || words[0] != "cut" && words[0] != "heal" {
		return usage
	}
	cut := h.cuts[words[1]]
	if cut == nil {
		return usage
	}
	cut.Store(words[0] == "cut")
	if cut.Load() {
		return words[1] + " is cut off from the coordinators"
	}
	return words[1] + " reaches the coordinators again"
}
