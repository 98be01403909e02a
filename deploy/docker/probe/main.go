// Command probe is the health check of an image that has no shell: it asks one URL
// and exits 0 if the answer has a status of 2xx, else 1 with the reason on stderr.
//
//	probe http://127.0.0.1:7403/healthz
package main

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"time"
)

// timeout is below the three seconds that the orchestrator waits, so that the
// reason is printed before the probe is killed.
const timeout = 2 * time.Second

// Exit codes; Docker reserves all but these two.
const (
	exitHealthy   = 0
	exitUnhealthy = 1
)

func main() { os.Exit(run(os.Args[1:], os.Stderr)) }

func run(args []string, stderr io.Writer) int {
	if len(args) != 1 {
		fmt.Fprintln(stderr, "usage: probe URL")
		return exitUnhealthy
	}
	if err := ask(args[0]); err != nil {
		fmt.Fprintln(stderr, "probe:", err)
		return exitUnhealthy
	}
	return exitHealthy
}

// ask gets url once. A redirect is an answer of its own, and not a healthy one.
func ask(url string) error {
	client := &http.Client{
		Timeout:       timeout,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	resp, err := client.Get(url)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode < 200 || resp.StatusCode > 299 {
		return fmt.Errorf("%s answers %s", url, resp.Status)
	}
	return nil
}
