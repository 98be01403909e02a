package overload

import (
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"aliquot/internal/rpc"
)

// doorPair is a connection before a door, and its client's end.
func doorPair(t *testing.T, d *Door, brings int64) (*doorConn, net.Conn) {
	here, there := net.Pipe()
	t.Cleanup(func() { here.Close(); there.Close() })
	return &doorConn{Conn: here, line: &line{Addr: here.RemoteAddr()}, door: d, brings: brings}, there
}

// readOne has a client send a byte, and returns a channel that tells whether it was late, once it was read.
func readOne(c *doorConn, client net.Conn) chan bool {
	out := make(chan bool, 1)
	go func() { _, _ = client.Write([]byte{1}) }()
	go func() {
		var p [1]byte
		if n, err := c.Read(p[:]); n == 1 && err == nil {
			out <- c.line.late.Load()
		}
	}()
	return out
}

// TestDoor: while as much is decided as there is room for, bytes wait in the order in which they came until
// something was decided. Those that wait too long are read all the same, to be refused.
func TestDoor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		intake := rpc.NewGate(maxDeciding, 0, 0)
		d := newDoor(intake, 1, nil)
		leave, err := intake.Enter(t.Context(), d.readLimit)
		if err != nil {
			t.Fatal(err)
		}
		first, firstClient := doorPair(t, d, BringsHTTP)
		second, secondClient := doorPair(t, d, BringsHTTP)
		one := readOne(first, firstClient)
		<-time.After(decideWait - time.Millisecond) // of the bubble's clock
		synctest.Wait()
		two := readOne(second, secondClient)
		synctest.Wait()
		if len(one)+len(two) != 0 || !d.crowded.Load() {
			t.Fatal("bytes are read although nothing more has room")
		}
		<-time.After(time.Millisecond) // of the bubble's clock
		synctest.Wait()
		if len(one) != 1 || !<-one || len(two) != 0 {
			t.Error("what has waited for 50 ms is not refused, or what has not, is")
		}
		leave()
		d.left()
		synctest.Wait()
		if len(two) != 1 || <-two || d.crowded.Load() {
			t.Error("what has waited for a shorter time is not served when there is room")
		}
		for _, c := range []*doorConn{first, second} {
			c.Close()
		}
		if d.coming.Load() != 0 {
			t.Errorf("%d are coming of connections that were closed", d.coming.Load())
		}
	})
}

// TestAConnectionThatIsClosedAtTheDoor brings no calls, whatever it has brought before, and keeps no room.
func TestAConnectionThatIsClosedAtTheDoor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		intake := rpc.NewGate(maxDeciding, 0, 0)
		d := newDoor(intake, 1, nil)
		c, client := doorPair(t, d, BringsHTTP)
		<-readOne(c, client)
		leave, err := intake.Enter(t.Context(), d.readLimit)
		if err != nil {
			t.Fatal(err)
		}
		waits := readOne(c, client)
		synctest.Wait()
		if c.Close(); len(waits) != 0 || d.coming.Load() != 0 {
			t.Fatalf("%d are coming of a connection that was closed as it waited", d.coming.Load())
		}
		leave()
		d.left()
		if late := <-waits; late || d.coming.Load() != 0 || d.crowded.Load() {
			t.Errorf("%d are coming, late %t, crowded %t when there is room", d.coming.Load(), late, d.crowded.Load())
		}
	})
}

// TestNobodyIsForgottenAtTheDoor: many more connections than there is room for read at once, and what they bring is decided
// in no time. So none of them waits for time to pass, and nothing is coming once all have been closed.
func TestNobodyIsForgottenAtTheDoor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := NewDoor(1, prometheus.NewCounter(prometheus.CounterOpts{Name: "refused"}))
		began := time.Now()
		var all sync.WaitGroup
		for i := range 500 {
			brings := int64(BringsHTTP)
			if i%2 == 0 {
				brings = BringsGRPC
			}
			c, client := doorPair(t, d, brings)
			all.Go(func() {
				for range 20 {
					if late := <-readOne(c, client); late {
						t.Error("refused at the door")
					}
					n, err := d.Enter(t.Context())
					if err != nil {
						t.Error(err)
					}
					d.Leave(n)
				}
				c.Close()
			})
		}
		all.Wait()
		if took := time.Since(began); took != 0 {
			t.Errorf("someone has waited for %v", took)
		}
		if requests, _ := d.Deciding(); requests != 0 || d.coming.Load() != 0 || d.crowded.Load() {
			t.Errorf("%d are decided and %d are coming in the end; crowded: %t", requests, d.coming.Load(), d.crowded.Load())
		}
	})
}

// TestFewAreRefused for each that is decided, so that refusals do not take the processor from answers; where
// nothing is decided, one every 10 ms.
func TestFewAreRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		intake := rpc.NewGate(maxDeciding, 0, 0)
		d := newDoor(intake, 1, nil)
		if _, err := intake.Enter(t.Context(), d.readLimit); err != nil {
			t.Fatal(err)
		}
		var all []chan bool
		for range 20 {
			c, client := doorPair(t, d, BringsHTTP)
			all = append(all, readOne(c, client))
		}
		refused := func() (n int) {
			synctest.Wait()
			for _, one := range all {
				n += len(one)
			}
			return n
		}
		<-time.After(decideWait) // of the bubble's clock
		if n := refused(); n != maxCredit/answersOfRefusal {
			t.Errorf("%d are refused at first", n)
		}
		for range 2 * answersOfRefusal {
			d.left()
		}
		if n := refused(); n != maxCredit/answersOfRefusal+2 {
			t.Errorf("%d are refused when as many more were decided as for 2", n)
		}
		<-time.After(refuseEvery) // of the bubble's clock
		if n := refused(); n != maxCredit/answersOfRefusal+3 {
			t.Errorf("%d are refused 10 ms later", n)
		}
		<-time.After(time.Second) // of the bubble's clock
		if n := refused(); n != len(all) || d.crowded.Load() {
			t.Errorf("%d are refused in the end", n)
		}
	})
}

// TestTheDoorIsOpen for bytes that come while there is room, however slowly. While others wait, bytes
// behind those that waited count as old as them.
func TestTheDoorIsOpen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		intake := rpc.NewGate(maxDeciding, 0, 0)
		d := newDoor(intake, 1, nil)
		c, client := doorPair(t, d, BringsGRPC)
		if <-readOne(c, client) {
			t.Error("late, although there is room")
		}
		if d.coming.Load() != BringsGRPC || !c.more {
			t.Errorf("%d are coming; more %v", d.coming.Load(), c.more)
		}
		<-time.After(decideWait) // of the bubble's clock
		if <-readOne(c, client) {
			t.Error("a message that arrives slowly is late, although nobody waits")
		}
		<-time.After(decideWait)
		if _, err := intake.Enter(t.Context(), d.readLimit); err != nil {
			t.Fatal(err)
		}
		other, otherClient := doorPair(t, d, BringsHTTP)
		waits := readOne(other, otherClient)
		synctest.Wait()
		if !<-readOne(c, client) {
			t.Error("what may have come with bytes that were read long ago is served")
		}
		<-waits
	})
}
