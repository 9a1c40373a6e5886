package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
)

// Code that is brought runs in this program's process, and can end it at any moment with any status: exit(0) in a kernel
// would look like a success. So a command that loads such code runs in a child, which writes its exit code to a pipe as the last thing
// that it does. What the process says of itself counts for nothing.

// outcomeEnv tells a child the number of the file to which it writes its outcome.
const outcomeEnv = "GEMMAUDIT_OUTCOME"

// told is what a child writes at its end.
type told struct {
	Code int `json:"code"`
}

// childError is the exit code of a child, which has printed its errors itself.
type childError struct{ code int }

func (e *childError) Error() string { return fmt.Sprintf("exit code %d", e.code) }

// bringsCode says whether a command line names code to be loaded into the process.
func bringsCode(cmd *cobra.Command) bool {
	for _, name := range []string{"kernel-file", "library"} {
		if f := cmd.Flags().Lookup(name); f != nil && f.Changed {
			return true
		}
	}
	f := cmd.Flags().Lookup("kernel")
	return f != nil && f.Changed && strings.Contains(f.Value.String(), "/")
}

// outcomeFile is where this process writes its outcome; nil where nobody waits for it.
func outcomeFile(env func(string) (string, bool)) (*os.File, error) {
	text, ok := env(outcomeEnv)
	if !ok {
		return nil, nil
	}
	fd, err := strconv.Atoi(text)
	var info syscall.Stat_t
	if err != nil || fd < 3 || syscall.Fstat(fd, &info) != nil || info.Mode&syscall.S_IFMT != syscall.S_IFIFO {
		return nil, usagef("%s: %q is no pipe that a parent waits at", outcomeEnv, text)
	}
	return os.NewFile(uintptr(fd), "outcome"), nil
}

// tellOutcome writes the exit code for the parent.
func tellOutcome(to *os.File, code int) {
	if to == nil {
		return
	}
	text, _ := json.Marshal(told{code})
	to.Write(append(text, '\n'))
	to.Close()
}

// superviseChild runs this program once more with the same arguments, in the same process group and on the same streams, and returns
// the exit code that it wrote. One that ended without it has failed, whatever its status.
func superviseChild(args []string) (code int, err error) {
	path, err := os.Executable()
	if err != nil {
		return 0, devicef("start the program anew: %w", err)
	}
	read, write, err := os.Pipe()
	if err != nil {
		return 0, devicef("start the program anew: %w", err)
	}
	defer read.Close()
	cmd := exec.Command(path, args...)
	cmd.Args[0] = os.Args[0]
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.ExtraFiles = []*os.File{write}
	cmd.Env = append(os.Environ(), outcomeEnv+"=3")
	signals := make(chan os.Signal, 4)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer signal.Stop(signals)
	err = cmd.Start()
	write.Close()
	if err != nil {
		return 0, devicef("start the program anew: %w", err)
	}
	done := make(chan struct{})
	go func() {
		for {
			select {
			case s := <-signals:
				cmd.Process.Signal(s) // a terminal's has reached it already, and the same one soon after is an echo
			case <-done:
				return
			}
		}
	}()
	const most = 1 << 10
	text, _ := io.ReadAll(io.LimitReader(read, most))
	ended := cmd.Wait()
	close(done)
	var last told
	if json.Unmarshal(text, &last) == nil && last.Code >= 0 && len(text) > 0 {
		if last.Code == exitClean && ended != nil {
			return 0, devicef("the process ended with %v after its outcome was written", ended)
		}
		return last.Code, nil
	}
	status := "exit status 0"
	if ended != nil {
		status = ended.Error()
	}
	return 0, hint(devicef("the process ended before its outcome was known, with %s: code that was brought has ended it", status),
		"what was measured is stored; with --resume the rest is measured")
}

// inChild carries the command line out in a child, which prints and writes all that it tells.
func (a *app) inChild() error {
	a.waits.Store(true)
	code, err := a.supervise(a.args)
	if err != nil {
		return err
	}
	a.textfile.path = ""
	if code == exitClean {
		return nil
	}
	return &childError{code}
}

// isChild says whether an error is the outcome of a child, which has printed it.
func isChild(err error) (code int, ok bool) {
	var child *childError
	if errors.As(err, &child) {
		return child.code, true
	}
	return 0, false
}
