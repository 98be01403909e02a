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

// finishSeal completes the step from a full segment to the next one in the list, which a crash or a full disk can
// interrupt. raft-wal 0.4.1 opens such a log and then refuses every write to it, after each start. finishSeal
// reports whether it has changed state.
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
	matches, err := indexMatches(files, last, tail)
	if err != nil {
		return false, err
	}
	if !matches {
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

// indexMatches reports whether the index at the end of a segment leads to every entry that was written. After a crash
// the index may be incomplete. An error is the operating system's and says nothing about the index.
func indexMatches(files *segment.Filer, sealed types.SegmentInfo, tail types.SegmentReader) (matches bool, err error) {
	if sealed.MaxIndex < sealed.MinIndex {
		return false, nil
	}
	r, err := files.Open(sealed)
	if err != nil {
		return false, systemError(err)
	}
	defer r.Close()
	for i := sealed.MinIndex; i <= sealed.MaxIndex; i++ {
		want, err := tail.GetLog(i)
		if err != nil {
			return false, systemError(err)
		}
		got, err := r.GetLog(i)
		if err != nil || !bytes.Equal(got.Bs, want.Bs) {
			return false, systemError(err) // the buffers go with the files
		}
		if err := errors.Join(got.Close(), want.Close()); err != nil {
			return false, err
		}
	}
	return true, nil
}

// systemError returns an error of the operating system, and nil for any other: that comes from the contents of the
// file.
func systemError(err error) error {
	if _, refused := errors.AsType[syscall.Errno](err); refused {
		return err
	}
	return nil
}

// unseal removes the index of a segment that was not written to its end. The entries of that write were never
// acknowledged, and the library overwrites them.
func unseal(file string, indexStart uint64) error {
	const frameHeader = 8
	return syncFile(file, func(f *os.File) error {
		_, err := f.WriteAt(make([]byte, frameHeader), int64(indexStart)-frameHeader)
		return err
	})
}

// syncFile changes a file and waits until the change, and all earlier writes, are on disk.
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
