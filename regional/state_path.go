package regional

import (
	"errors"
	"net"
	"path/filepath"
	"strings"

	"aliquot/internal/rpc"
)

// DefaultStateFile returns the path of the state file for a daemon without --state-file. The path
// has the region and the --listen address, so that no two daemons share a file. The folder is the
// first of $STATE_DIRECTORY (which systemd sets), or aliquot in $XDG_STATE_HOME, or
// ~/.local/state/aliquot. The error says why there is no such path.
func DefaultStateFile(region, listen string, getenv func(string) string) (string, error) {
	name, err := stateName(region, listen)
	if err != nil {
		return "", err
	}
	first, _, _ := strings.Cut(getenv("STATE_DIRECTORY"), ":")
	home, xdg := getenv("HOME"), getenv("XDG_STATE_HOME")
	switch {
	case filepath.IsAbs(first):
		return filepath.Join(first, name), nil
	case filepath.IsAbs(xdg): // by its specification a relative one does not count
		return filepath.Join(xdg, "aliquot", name), nil
	case filepath.IsAbs(home):
		return filepath.Join(home, ".local", "state", "aliquot", name), nil
	}
	return "", errors.New("none of STATE_DIRECTORY, XDG_STATE_HOME and HOME names a folder")
}

// stateName returns the name of a daemon's state file in its folder.
func stateName(region, listen string) (string, error) {
	if path, unix := rpc.UnixPath(listen); unix {
		return "regional-" + region + strings.ReplaceAll(filepath.Clean("/"+path), "/", "-") + ".json", nil
	}
	_, port, err := net.SplitHostPort(listen)
	if err != nil {
		return "", err
	}
	if port == "0" {
		return "", errors.New("--listen has port 0, which is another one after each start")
	}
	return "regional-" + region + "-" + port + ".json", nil
}
