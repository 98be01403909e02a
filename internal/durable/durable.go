// Package durable replaces files so that a crash leaves the old one or the new one.
package durable

import (
	"errors"
	"os"
	"path/filepath"
)

// CreateTemp creates a temporary file beside a file that it may replace, with mode 0600 and a name of
// its own.
func CreateTemp(path string) (*os.File, error) {
	return os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*.tmp")
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
