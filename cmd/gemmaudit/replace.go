package main

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

// replaceProcess starts this program anew in the place of this process, with the same command line
// and one more variable in its environment. It returns only where that fails. The threads of the
// process end with it, whatever they wait for, and the kernel takes back what they held of a device.
func replaceProcess(variable string) error {
	path, err := os.Executable()
	if err != nil {
		return fmt.Errorf("start the program anew: %w", err)
	}
	const self = "/proc/self/exe"
	was, err := os.Stat(self)
	if is, missing := os.Stat(path); err == nil && (missing != nil || !os.SameFile(was, is)) {
		path = self // the file was replaced by another version
	}
	name, _, _ := strings.Cut(variable, "=")
	env := slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, name+"=") })
	closeOnExec()
	if err := syscall.Exec(path, os.Args, append(env, variable)); err != nil {
		return fmt.Errorf("start the program anew: %w", err)
	}
	return nil
}

// closeOnExec has all files but the standard streams closed when the program is started anew: a
// driver's, through which a card would stay taken, and those of libraries.
func closeOnExec() {
	const folder = "/dev/fd"
	files, err := os.ReadDir(folder)
	if err != nil {
		return // what Go has opened is closed by itself
	}
	for _, f := range files {
		// The parent of this process waits for the outcome of whoever takes its place.
		if fd, err := strconv.Atoi(f.Name()); err == nil && fd > 2 && f.Name() != os.Getenv(outcomeEnv) {
			syscall.CloseOnExec(fd)
		}
	}
}
