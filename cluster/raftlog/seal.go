package raftlog

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"

	walfs "github.com/hashicorp/raft-wal/fs"
	"github.com/hashicorp/raft-wal/segment"
	"github.com/hashicorp/raft-wal/types"
)

// finishSeal ends what a crash, or a full disk, has left undone between the end of a segment
// and the next one's place in the list. raft-wal 0.4.1 opens such a log and refuses every
// write to it from then on, after each start. It reports whether state has changed.
func finishSeal(dir string, state *types.PersistentState) (bool, error) {
	n := len(state.Segments)
	if n == 0 || !state.Segments[n-1].SealTime.IsZero() {
		return false, nil
	}
	last := state.Segments[n-1]
	files := segment.NewFiler(dir, walfs.New())
	tail, err := files.RecoverTail(last)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, types.ErrCorrupt) {
		return false, nil // the library knows what to do, or says what it is
	}
	if err != nil {
		return false, err
	}
	defer tail.Close()
	sealed, indexStart, err := tail.Sealed()
	if err != nil || !sealed {
		return false, err
	}
	last.MaxIndex, last.IndexStart, last.SealTime = tail.LastIndex(), indexStart, time.Now()
	alike, err := readsAlike(files, last, tail)
	if err != nil {
		return false, err
	}
	if !alike {
		return false, unseal(filepath.Join(dir, segment.FileName(last)), indexStart)
	}
	state.Segments[n-1] = last
	state.Segments = append(state.Segments, types.SegmentInfo{
		ID: state.NextSegmentID, BaseIndex: last.MaxIndex + 1, MinIndex: last.MaxIndex + 1,
		Codec: last.Codec, SizeLimit: last.SizeLimit, CreateTime: last.SealTime,
	})
	state.NextSegmentID++
	return true, syncFile(filepath.Join(dir, segment.FileName(last)), func(*os.File) error { return nil })
}

// readsAlike reports whether the index at a segment's end leads to all that was written: it
// may be what a crash has left of one. An error is the operating system's, which says nothing
// about that.
func readsAlike(files *segment.Filer, sealed types.SegmentInfo, tail types.SegmentReader) (alike bool, err error) {
	if sealed.MaxIndex < sealed.MinIndex {
		return false, nil
	}
	r, err := files.Open(sealed)
	if err != nil {
		return false, refusal(err)
	}
	defer r.Close()
	for i := sealed.MinIndex; i <= sealed.MaxIndex; i++ {
		want, err := tail.GetLog(i)
		if err != nil {
			return false, refusal(err)
		}
		got, err := r.GetLog(i)
		if err != nil || !bytes.Equal(got.Bs, want.Bs) {
			return false, refusal(err) // the buffers go with the files
		}
		if err := errors.Join(got.Close(), want.Close()); err != nil {
			return false, err
		}
	}
	return true, nil
}

// refusal is an error of the operating system; what else cannot be read is no error, but what
// is in the file.
func refusal(err error) error {
	if _, refused := errors.AsType[syscall.Errno](err); refused {
		return err
	}
	return nil
}

// unseal takes an index out again whose segment was not written to its end. What was written
// with it was never acknowledged, and the library writes over it.
func unseal(file string, indexStart uint64) error {
	const frameHeader = 8
	return syncFile(file, func(f *os.File) error {
		_, err := f.WriteAt(make([]byte, frameHeader), int64(indexStart)-frameHeader)
		return err
	})
}

// syncFile has a change of a file, and what was written to it before, on disk.
func syncFile(file string, change func(*os.File) error) error {
	f, err := os.OpenFile(file, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	err = change(f)
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}
