package worker

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"

	"github.com/gemmaudit/gemmaudit/kernels"
)

// process is a running worker. One goroutine at a time makes calls.
type process struct {
	cmd     *exec.Cmd
	to      *os.File
	replies chan reply
	window  *window
	lines   lastLines
	// gone is closed when the process has ended and its streams are read; status says how.
	gone    chan struct{}
	status  error
	next    int64
	stopped bool // by SIGSTOP
	traces  bool // it prints its stack after SIGUSR1
	// folders have the user's code.
	folders []string
}

// command is what starts a worker, and what it reads first: modules of its own code, for Python.
type command struct {
	path  string
	args  []string
	env   []string
	first []byte
	// traces says that the process prints a stack of Python after SIGUSR1.
	traces bool
}

// mostReply is the longest line that a worker may write.
const mostReply = 64 << 20

// startProcess starts a worker. Each line that it prints goes to log. It must read its modules within limit.
func startProcess(c command, log func(string), limit time.Duration) (*process, error) {
	w, err := newWindow()
	if err != nil {
		return nil, err
	}
	fail := func(err error, files ...*os.File) (*process, error) {
		for _, f := range files {
			f.Close()
		}
		return nil, errors.Join(fmt.Errorf("start worker %s: %w", c.path, err), w.close())
	}
	requests, to, err := os.Pipe()
	if err != nil {
		return fail(err)
	}
	from, answers, err := os.Pipe()
	if err != nil {
		return fail(err, requests, to)
	}
	printed, prints, err := os.Pipe()
	if err != nil {
		return fail(err, requests, to, from, answers)
	}
	p := &process{cmd: exec.Command(c.path, c.args...), to: to, window: w, replies: make(chan reply, 1), gone: make(chan struct{}),
		traces: c.traces}
	p.cmd.Env = append(os.Environ(), c.env...)
	p.cmd.ExtraFiles = []*os.File{requests, answers, w.file}
	p.cmd.Stdout, p.cmd.Stderr = prints, prints
	p.cmd.SysProcAttr = attributes()
	err = p.cmd.Start()
	requests.Close()
	answers.Close()
	prints.Close()
	if err != nil {
		return fail(err, to, from, printed)
	}
	var streams sync.WaitGroup
	streams.Go(func() { p.lines.copy(printed, log) })
	streams.Go(func() { p.read(from) })
	go func() {
		p.status = p.cmd.Wait()
		// A process that the worker left behind may hold the streams.
		printed.SetReadDeadline(time.Now().Add(streamsAfterEnd))
		from.SetReadDeadline(time.Now().Add(streamsAfterEnd))
		streams.Wait()
		printed.Close()
		from.Close()
		close(p.gone)
	}()
	if len(c.first) > 0 {
		if err := p.send(c.first, limit); err != nil {
			killed := p.kill()
			if errors.Is(err, os.ErrDeadlineExceeded) {
				return nil, errors.Join(&lostError{fmt.Sprintf("it read no code within %v: it was ended", limit)}, killed)
			}
			return nil, errors.Join(p.ended("start"), killed)
		}
	}
	return p, nil
}

// send writes a line, which the process must read within limit.
func (p *process) send(line []byte, limit time.Duration) error {
	var until time.Time // none
	if limit > 0 {
		until = time.Now().Add(limit)
	}
	p.to.SetWriteDeadline(until) // without support, a write may wait longer
	_, err := p.to.Write(append(line, '\n'))
	return err
}

const streamsAfterEnd = 200 * time.Millisecond

// read passes on the worker's replies. A line that is none is one with id 0 and the reason.
func (p *process) read(from io.Reader) {
	lines := bufio.NewScanner(from)
	lines.Buffer(nil, mostReply)
	for lines.Scan() {
		var r reply
		if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
			r = reply{Error: &failure{Kind: protocolFailure, Message: fmt.Sprintf("it wrote %.60q: %v", lines.Text(), err)}}
		}
		p.replies <- r
	}
}

// lostError is a worker that ended or was ended in a call.
type lostError struct{ text string }

func (e *lostError) Error() string { return e.text }

// Is makes it a [kernels.ErrProcessLost].
func (e *lostError) Is(target error) bool { return target == kernels.ErrProcessLost }

// call sends a request and decodes the result, unless that is nil. Without a sign of life within limit it ends the
// worker. waiting is called several times a second; it may be nil. The error is a [*failure], or a [*lostError] after
// which the process is gone.
func (p *process) call(name string, params, result any, limit time.Duration, waiting func()) error {
	p.next++
	line, err := json.Marshal(request{p.next, name, params})
	if err != nil {
		return fmt.Errorf("worker: %s: %w", name, err)
	}
	p.resume()
	if err := p.send(line, limit); errors.Is(err, os.ErrDeadlineExceeded) {
		return p.hangs(limit)
	} else if err != nil {
		<-p.gone
		return p.ended(name)
	}
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	alive := time.Now()
	for {
		select {
		case r := <-p.replies:
			switch {
			case r.ID != p.next:
				text := "it answered another request"
				if r.Error != nil {
					text = r.Error.Message
				}
				return &lostError{errors.Join(fmt.Errorf("the worker broke its protocol: %s", text), p.kill()).Error()}
			case r.Error != nil:
				return r.Error
			case r.Result == nil:
				alive = time.Now() // progress
				continue
			case result == nil:
				return nil
			}
			if err := json.Unmarshal(r.Result, result); err != nil {
				broke := fmt.Errorf("the worker broke its protocol: the result of %s: %w", name, err)
				return &lostError{errors.Join(broke, p.kill()).Error()}
			}
			return nil
		case <-p.gone:
			// Its last reply may have come just before.
			select {
			case r := <-p.replies:
				if r.ID == p.next && r.Error != nil {
					return r.Error
				}
			default:
			}
			return p.ended(name)
		case <-tick.C:
			if waiting != nil {
				waiting()
			}
			if limit > 0 && time.Since(alive) > limit {
				return p.hangs(limit)
			}
		}
	}
}

// hangs ends a process that does not answer.
func (p *process) hangs(limit time.Duration) error {
	at := p.hangsAt()
	p.kill()
	return &lostError{fmt.Sprintf("no answer within %v%s: the worker was ended", limit, at)}
}

// ended describes the end of the process in a call.
func (p *process) ended(call string) error {
	status := "exit status 0"
	if p.status != nil {
		status = p.status.Error()
	}
	at := p.lines.site(p.folders)
	text := fmt.Sprintf("the worker ended in %s%s: %s", call, at, status)
	if last := p.lines.last(); last != "" && at == "" {
		text += ": " + last
	}
	return &lostError{text}
}

// stop keeps the process from using the CPU until the next call.
func (p *process) stop() {
	if !p.stopped && syscall.Kill(-p.cmd.Process.Pid, syscall.SIGSTOP) == nil {
		p.stopped = true
	}
}

func (p *process) resume() {
	if p.stopped {
		syscall.Kill(-p.cmd.Process.Pid, syscall.SIGCONT)
		p.stopped = false
	}
}

func (p *process) alive() bool {
	select {
	case <-p.gone:
		return false
	default:
		return true
	}
}

// kill ends the process, with those that it started, and waits for it.
func (p *process) kill() error {
	syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL)
	p.cmd.Process.Kill()
	for {
		select {
		case <-p.replies: // the reader must not block
		case <-p.gone:
			p.to.Close()
			return p.window.close()
		}
	}
}

// close lets the process end by itself.
func (p *process) close() error {
	p.resume()
	p.to.Close()
	select {
	case <-p.gone:
	case <-time.After(endsWithin):
	}
	return p.kill()
}

const endsWithin = 2 * time.Second

// Error makes a failure an error.
func (f *failure) Error() string {
	text := oneLine(f.Message)
	if f.Where != "" {
		text = oneLine(f.Where) + ": " + text
	}
	return text
}

// HintText returns the worker's advice; it may be empty.
func (f *failure) HintText() string { return oneLine(f.Hint) }

// Is makes a failure of the device a [kernels.ErrProcessLost].
func (f *failure) Is(target error) bool {
	return target == kernels.ErrProcessLost && f.Kind == deviceFailure
}
