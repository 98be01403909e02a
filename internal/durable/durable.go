// Package durable replaces files so that a crash leaves the old one or the new one.
package durable

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
)

// CreateTemp creates a temporary file beside a file that it may replace, with mode 0600 and a name of
// its own.
func CreateTemp(path string) (*os.File, error) {
	return os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*.tmp")
}

// RemoveTemp removes the temporary files that a crash has left beside a file. Nobody may write the file meanwhile.
func RemoveTemp(path string) error {
	entries, err := os.ReadDir(filepath.Dir(path))
	if err != nil {
		return err
	}
	for _, e := range entries {
		number, temp := strings.CutPrefix(e.Name(), filepath.Base(path)+".")
		number, is := strings.CutSuffix(number, ".tmp")
		if !temp || !is || strings.Trim(number, "0123456789") != "" {
			continue
		}
		err = errors.Join(err, os.Remove(filepath.Join(filepath.Dir(path), e.Name())))
	}
	return err
}

// WriteFile replaces a file in one step. A reader finds the old file or the new one, even after a power
// cut. Only the owner may read the new one. After an error the old file may be in place or the new one.
func WriteFile(path string, data []byte) error {
	temp, err := CreateTemp(path)
	if err != nil {
		return err
	}
	defer os.Remove(temp.Name()) // fails after the file was renamed
	_, err = temp.Write(data)
	if err = errors.Join(err, temp.Sync(), temp.Close()); err != nil {
		return err
	}
	if err := os.Rename(temp.Name(), path); err != nil {
		return err
	}
	return syncDir(filepath.Dir(path))
}

// Remove removes a file, so that it is gone even after a power cut.
func Remove(path string) error {
	if err := os.Remove(path); err != nil {
		return err
	}
	return syncDir(filepath.Dir(path))
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}
