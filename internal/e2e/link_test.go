package e2e

import (
	"bufio"
	"fmt"
	"net"
	"testing"
)

// echo is a server that answers each line with the same line.
func echo(t *testing.T) (address string, heard <-chan string) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	lines := make(chan string, 16)
	go func() {
		for {
			c, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				for in := bufio.NewScanner(c); in.Scan(); {
					lines <- in.Text()
					fmt.Fprintln(c, in.Text())
				}
			}()
		}
	}()
	return listener.Addr().String(), lines
}

// TestLink: what is sent over a cut link arrives when the link is restored, in order.
func TestLink(t *testing.T) {
	server, heard := echo(t)
	l, err := NewLink(server)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	client, err := net.Dial("tcp", l.Address())
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	answered := bufio.NewScanner(client)
	next := func() string {
		if !answered.Scan() {
			t.Fatalf("the connection ended: %v", answered.Err())
		}
		return answered.Text()
	}
	fmt.Fprintln(client, "one")
	if got := next(); got != "one" || <-heard != "one" {
		t.Fatalf("got %q", got)
	}
	l.cutOff(Answers)
	fmt.Fprintln(client, "two")
	if got := <-heard; got != "two" {
		t.Fatalf("the server heard %q while answers were cut", got)
	}
	l.cutOff(Requests)
	fmt.Fprintln(client, "three")
	select {
	case got := <-heard:
		t.Fatalf("the server heard %q over a cut link", got)
	default:
	}
	l.restore()
	for _, want := range []string{"two", "three"} {
		if got := next(); got != want {
			t.Fatalf("got %q, want %q", got, want)
		}
	}
	l.Close()
	if answered.Scan() {
		t.Fatalf("got %q from a closed link", answered.Text())
	}
}
