package e2e

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"
)

// Main is the main function of a command that needs the module's programs. The command has declared
// its flags; Main adds -bin, the folder of the programs, and parses them. valid, if not nil, then checks
// them. work gets a folder of its own, which is removed after it, and the folder of the programs: -bin, or else its own
// folder, into which Main builds the module in the working directory. Main ends the process as Exit does.
func Main(name string, valid func() error, work func(ctx context.Context, bin, dir string) (ok bool, err error)) {
	bin := flag.String("bin", "", "folder of the programs; built if empty")
	flag.Parse()
	Exit(func(ctx context.Context) (bool, error) {
		if valid != nil {
			if err := valid(); err != nil {
				return false, err
			}
		}
		return InFolder(ctx, name, *bin, work)
	})
}

// Exit runs work, whose context ends at an interrupt and at SIGTERM, prints its error, and ends the
// process: with 0 if all is ok, with 1 otherwise.
func Exit(work func(context.Context) (ok bool, err error)) {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	ok, err := work(ctx)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	if err != nil || !ok {
		os.Exit(1)
	}
	os.Exit(0)
}

// InFolder runs work as Main does, with bin for -bin.
func InFolder(ctx context.Context, name, bin string, work func(ctx context.Context, bin, dir string) (bool, error)) (ok bool, err error) {
	dir, err := os.MkdirTemp("", "aliquot-"+name+"-")
	if err != nil {
		return false, err
	}
	defer os.RemoveAll(dir)
	if bin == "" {
		bin = dir
		if err := Build(ctx, ".", dir); err != nil {
			return false, err
		}
	}
	return work(ctx, bin, dir)
}

// buildWithin bounds the time to build the programs.
const buildWithin = 5 * time.Minute

// ProgramsFolder is the name of the environment variable that names a folder for the programs, which the packages
// of a test run share. It does not begin as those that the daemons read.
const ProgramsFolder = "E2E_PROGRAMS"

// RunTests is TestMain for a package whose tests start the programs of a module, given by its folder. It
// builds them, sets bin to their folder, runs the tests, and returns the exit code.
func RunTests(tests interface{ Run() int }, module string, bin *string) (code int) {
	ctx, cancel := context.WithTimeout(context.Background(), buildWithin)
	defer cancel()
	dir, remove, err := programs(ctx, module)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer remove()
	*bin = dir
	return tests.Run()
}

// programs builds the programs of a module, given by its folder. It returns their folder and a function that removes
// it. If ProgramsFolder names a folder, they are built there and stay, so go links only programs again whose source has
// changed. One process at a time builds there.
func programs(ctx context.Context, module string) (dir string, remove func(), err error) {
	if dir = os.Getenv(ProgramsFolder); dir != "" {
		return dir, func() {}, buildAlone(ctx, module, dir)
	}
	if dir, err = os.MkdirTemp("", "aliquot-e2e-"); err != nil {
		return "", nil, err
	}
	remove = func() { os.RemoveAll(dir) }
	if err = Build(ctx, module, dir); err != nil {
		remove()
		return "", nil, err
	}
	return dir, remove, nil
}

// buildAlone is Build, which waits while another process builds into dir.
func buildAlone(ctx context.Context, module, dir string) error {
	if !filepath.IsAbs(dir) {
		return fmt.Errorf("%s %q: give an absolute path, for each package's tests run in its own folder", ProgramsFolder, dir)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	lock, err := os.OpenFile(filepath.Join(dir, ".lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	defer lock.Close() // which releases the lock
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		return fmt.Errorf("lock %s: %w", lock.Name(), err)
	}
	return Build(ctx, module, dir)
}

// PrintJSON prints what was measured, indented.
func PrintJSON(w io.Writer, measured any) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(measured)
}
