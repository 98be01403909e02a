package regional

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"encoding/gob"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"aliquot/budget"
	"aliquot/internal/boottime"
	"aliquot/internal/durable"
	"aliquot/regional/internal/emergency"
	"aliquot/regional/internal/session"
)

// A daemon that stops writes what it remembers of its store's records into a file beside its state file.
// When it comes back, the store may have lost its contents, as a Redis without persistence on the same
// host has. Then the daemon gives the records back to the store. It does so only if the coordinators have
// kept its place: no other daemon of the region has come meanwhile.

const (
	// recordsSuffix is added to the name of the state file.
	recordsSuffix = ".records"
	// recordsMagic begins the file. The SHA-256 of what follows it comes next, then the records in gob.
	recordsMagic = "aliquot records 1\n"
	// maxRecordsBytes is well above the size of a full table, which is about 40 MB.
	maxRecordsBytes = 256 << 20
	// clocksApart is how much two clocks may differ about how long a daemon was away.
	clocksApart = time.Second
)

// records is the content of the file.
type records struct {
	Region, Cluster string
	Place           uint64
	Terms           session.Terms
	// Boot identifies the boot clock; empty: it is not known. Wall is the wall clock at the end, in Unix
	// nanoseconds.
	Boot string
	Wall int64
	Kept emergency.Kept
}

func (d *Daemon) recordsFile() string { return d.cfg.StateFile + recordsSuffix }

// keepRecords writes what this daemon remembers, and returns the place to ask for; 0 if nothing is worth a
// place. open is the session that was open when the daemon stopped to spend.
func (d *Daemon) keepRecords(open budget.SessionID) (place uint64) {
	if d.cfg.StateFile == "" {
		return 0
	}
	if open == (budget.SessionID{}) {
		d.nothingKept("no session with the coordinators is open, so they cannot keep its place")
		return 0
	}
	kept := d.emergency.Keep()
	if kept == nil {
		d.nothingKept("another daemon of the region may have spent, or too little is known of the store's contents")
		return 0
	}
	var number [8]byte
	rand.Read(number[:]) // never fails: crypto/rand crashes the process instead
	r := records{
		Region: d.cfg.Region, Cluster: d.policies.Load().Cluster.ClusterID, Place: binary.BigEndian.Uint64(number[:]) | 1,
		Terms: d.session.Terms(), Boot: d.boot(), Wall: time.Now().UnixNano(), Kept: *kept,
	}
	data, err := encodeRecords(&r)
	if err == nil {
		err = d.writeFile(d.recordsFile(), data)
	}
	if err != nil {
		d.log.Error("what this daemon remembers of its store cannot be written: if the store is restarted too, its limits start from empty",
			"file", d.recordsFile(), "error", err)
		return 0
	}
	return r.Place
}

// nothingKept logs why this daemon leaves nothing to its next run.
func (d *Daemon) nothingKept(why string) {
	d.log.Info("this daemon leaves nothing of what it remembers of its store: if the store loses its contents before the daemon is back, its limits start from empty",
		"reason", why)
}

// boot identifies the clock that Config.Now reads; empty: it is no boot clock.
func (d *Daemon) boot() string {
	if !d.cfg.bootClock {
		return ""
	}
	return boottime.Boot()
}

func encodeRecords(r *records) ([]byte, error) {
	var body bytes.Buffer
	if err := gob.NewEncoder(&body).Encode(r); err != nil {
		return nil, err
	}
	sum := sha256.Sum256(body.Bytes())
	return append(append([]byte(recordsMagic), sum[:]...), body.Bytes()...), nil
}

func decodeRecords(data []byte) (*records, error) {
	rest, is := bytes.CutPrefix(data, []byte(recordsMagic))
	if !is || len(rest) < sha256.Size {
		return nil, errors.New("it is not a file of records that this version can read")
	}
	body := rest[sha256.Size:]
	if sha256.Sum256(body) != [sha256.Size]byte(rest) {
		return nil, errors.New("its content does not match its checksum")
	}
	var r records
	if err := gob.NewDecoder(bytes.NewReader(body)).Decode(&r); err != nil {
		return nil, err
	}
	if r.Kept.Records == nil || r.Place == 0 {
		return nil, errors.New("it has no records")
	}
	return &r, nil
}

// readRecords gives the emergency limit what the last run of this daemon remembered, and returns what the
// session must know of it; nil: there is nothing. kept is the content of the state file, or nil. If the file
// cannot be used, that is no error, and the store's limits start from empty. readRecords removes the file:
// this run will spend, so no later run may rely on the same records.
func (d *Daemon) readRecords(kept *state) *session.Return {
	if kept == nil || d.cfg.StateFile == "" {
		return nil
	}
	file := d.recordsFile()
	data, err := readBounded(file, maxRecordsBytes)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	var r *records
	if err == nil {
		r, err = decodeRecords(data)
	}
	if err == nil && (r.Region != d.cfg.Region || r.Cluster != kept.Cluster.ClusterID) {
		err = fmt.Errorf("it is of region %q of another cluster or daemon", r.Region)
	}
	if gone := durable.Remove(file); err == nil {
		err = gone
	}
	if err != nil {
		d.log.Warn("what this daemon remembered of its store when it stopped cannot be used", "file", file, "error", err)
		return nil
	}
	d.emergency.Return(&r.Kept, d.clockContinued(r))
	return &session.Return{Place: r.Place, Terms: r.Terms}
}

// clockContinued reports whether the boot clock has run on since records were written, and agrees with the
// wall clock about how long that is.
func (d *Daemon) clockContinued(r *records) bool {
	boot := d.boot()
	away := d.cfg.Now().Sub(r.Kept.Records.At)
	apart := away - time.Duration(time.Now().UnixNano()-r.Wall)
	return boot != "" && boot == r.Boot && away >= 0 && apart.Abs() < clocksApart
}
