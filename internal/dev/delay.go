package dev

import (
	"net/http"
	"time"
)

// delay lets every call take longer by a round trip, half of it on the way there
// and half on the way back, as a distance would.
type delay struct {
	next   http.RoundTripper
	oneWay time.Duration
}

// RoundTrip implements http.RoundTripper.
func (d delay) RoundTrip(r *http.Request) (*http.Response, error) {
	if err := d.travel(r); err != nil {
		if r.Body != nil {
			r.Body.Close()
		}
		return nil, err
	}
	answer, err := d.next.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	if err := d.travel(r); err != nil {
		answer.Body.Close()
		return nil, err
	}
	return answer, nil
}

func (d delay) travel(r *http.Request) error {
	select {
	case <-r.Context().Done():
		return r.Context().Err()
	case <-time.After(d.oneWay):
		return nil
	}
}
