package process

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"syscall"
)

// External code runs in this program's process and can end it at any moment with any status: exit(0) in a
// kernel would look like success. A command that loads such code therefore runs in a child, which writes its
// exit code to a pipe as its last action. The process status is ignored.

// outcomeEnv tells a child the file descriptor for its outcome.
const outcomeEnv = "GEMMAUDIT_OUTCOME"

type told struct {
	Code int `json:"code"`
}

// LostError is a child that ended without an exit code.
type LostError struct{ status string }

func (e *LostError) Error() string {
	return fmt.Sprintf("the process ended with %s before it had a result: "+
		"a kernel or library of --kernel-file or --library ended it", e.status)
}

// HintText says what is left.
func (e *LostError) HintText() string { return "all samples are stored; --resume measures the rest" }

// OutcomeFile is the file for this process's outcome; nil without a waiting parent.
func OutcomeFile(env func(string) (string, bool)) (*os.File, error) {
	text, ok := env(outcomeEnv)
	if !ok {
		return nil, nil
	}
	fd, err := strconv.Atoi(text)
	var info syscall.Stat_t
	if err != nil || fd < 3 || syscall.Fstat(fd, &info) != nil || info.Mode&syscall.S_IFMT != syscall.S_IFIFO {
		return nil, fmt.Errorf("%s: %q is not a pipe from a parent process", outcomeEnv, text)
	}
	return os.NewFile(uintptr(fd), "outcome"), nil
}

// TellOutcome sends an exit code to the waiting parent, if there is one.
func TellOutcome(to *os.File, code int) {
	if to == nil {
		return
	}
	text, _ := json.Marshal(told{code})
	to.Write(append(text, '\n'))
	to.Close()
}

// Supervise runs this program again with the same arguments, process group and streams, and returns the
// exit code that it wrote. A child without an exit code has failed, regardless of its status.
func Supervise(args []string) (code int, err error) {
	path, err := os.Executable()
	if err != nil {
		return 0, fmt.Errorf("restart the program: %w", err)
	}
	read, write, err := os.Pipe()
	if err != nil {
		return 0, fmt.Errorf("restart the program: %w", err)
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
		return 0, fmt.Errorf("restart the program: %w", err)
	}
	done := make(chan struct{})
	go func() {
		for {
			select {
			case s := <-signals:
				cmd.Process.Signal(s) // a terminal has already signaled it; the repeat counts as an echo
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
		if last.Code == 0 && ended != nil {
			return 0, fmt.Errorf("the process ended with %v after writing its result", ended)
		}
		return last.Code, nil
	}
	status := "exit status 0"
	if ended != nil {
		status = ended.Error()
	}
	return 0, &LostError{status}
}
