// The aliquot command; package cli is all of it.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"aliquot/internal/cli"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), endings()...)
	code := cli.Run(ctx, os.Args[1:], cli.Streams{In: os.Stdin, Out: os.Stdout, Err: os.Stderr})
	stop()
	os.Exit(code)
}

// endings are the signals that end a command in good order. A terminal that is closed is
// one, so that `aliquot dev` leaves no data behind; unless it was started not to hear of
// that, as by nohup.
func endings() []os.Signal {
	all := []os.Signal{syscall.SIGINT, syscall.SIGTERM}
	if !signal.Ignored(syscall.SIGHUP) {
		all = append(all, syscall.SIGHUP)
	}
	return all
}
