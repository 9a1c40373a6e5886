package process

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

// Replace restarts this program in the same process, with the same command line and one more
// environment variable. It returns only on failure. All threads end, even hanging ones, and the operating
// system releases their device resources.
func Replace(variable string) error {
	path, err := os.Executable()
	if err != nil {
		return fmt.Errorf("restart the program: %w", err)
	}
	const self = "/proc/self/exe"
	was, err := os.Stat(self)
	if is, missing := os.Stat(path); err == nil && (missing != nil || !os.SameFile(was, is)) {
		path = self // another version replaced the file
	}
	name, _, _ := strings.Cut(variable, "=")
	env := slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, name+"=") })
	closeOnExec()
	if err := syscall.Exec(path, os.Args, append(env, variable)); err != nil {
		return fmt.Errorf("restart the program: %w", err)
	}
	return nil
}

// closeOnExec closes all files except the standard streams at the restart: a driver's files would keep a card
// busy, and libraries open files too.
func closeOnExec() {
	const folder = "/dev/fd"
	files, err := os.ReadDir(folder)
	if err != nil {
		return // Go closes its own files
	}
	for _, f := range files {
		// The parent of this process waits for the outcome of its replacement.
		if fd, err := strconv.Atoi(f.Name()); err == nil && fd > 2 && f.Name() != os.Getenv(outcomeEnv) {
			syscall.CloseOnExec(fd)
		}
	}
}
