package worker

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"time"
)

// lastLines keeps the end of what a worker printed, and the last stack of Python among it.
type lastLines struct {
	mu     sync.Mutex
	kept   []string
	frames []frame
}

// frame is a line of code in a stack, the innermost first.
type frame struct{ path, line string }

const (
	linesKept = 3
	lineShown = 400 // bytes
)

func (l *lastLines) copy(from io.Reader, log func(string)) {
	r := bufio.NewReaderSize(from, 64<<10)
	var shown *flood
	if log != nil {
		shown = newFlood(log, time.Now)
		defer shown.end()
	}
	for {
		line, err := r.ReadSlice('\n')
		if len(line) > 0 && !errors.Is(err, bufio.ErrBufferFull) || len(line) == 64<<10 {
			text := strings.ToValidUTF8(string(bytes.TrimRight(line, "\r\n")), "?")
			if shown != nil {
				shown.line(text)
			}
			if strings.TrimSpace(text) != "" {
				l.keep(text)
			}
		}
		if err != nil && !errors.Is(err, bufio.ErrBufferFull) {
			return
		}
	}
}

func (l *lastLines) keep(text string) {
	if len(text) > lineShown {
		text = text[:lineShown]
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.trace(text)
	l.kept = append(l.kept, strings.TrimSpace(text))
	if len(l.kept) > linesKept {
		l.kept = l.kept[1:]
	}
}

const framesKept = 128

var (
	// stackBegins is how faulthandler of Python begins, after a crash and when asked. Other threads come first.
	stackBegins = regexp.MustCompile(`^(Fatal Python error: |Current thread |Stack \(most recent call first\))`)
	stackFrame  = regexp.MustCompile(`^  File "([^"]+)", line ([0-9]+) in `)
	installed   = regexp.MustCompile(`(site|dist)-packages`)
)

// trace keeps a line of a stack.
func (l *lastLines) trace(text string) {
	if stackBegins.MatchString(text) {
		l.frames = nil
	} else if f := stackFrame.FindStringSubmatch(text); f != nil && len(l.frames) < framesKept {
		l.frames = append(l.frames, frame{f[1], f[2]})
	}
}

// site is the innermost line of the user's code in the last stack, " at mine.py:12"; empty if there is none.
func (l *lastLines) site(folders []string) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, f := range l.frames {
		for _, folder := range folders {
			name, err := filepath.Rel(folder, f.path)
			if err == nil && filepath.IsLocal(name) && !installed.MatchString(name) {
				return fmt.Sprintf(" at %s:%s", oneLine(name), f.line)
			}
		}
	}
	return ""
}

// hangsAt asks the process for its stack, and returns the line of the user's code; empty if unknown.
func (p *process) hangsAt() string {
	if !p.traces || syscall.Kill(p.cmd.Process.Pid, syscall.SIGUSR1) != nil {
		return ""
	}
	select {
	case <-p.gone:
	case <-time.After(stackWithin):
	}
	return p.lines.site(p.folders)
}

// stackWithin is how long a process may take to print its stack.
const stackWithin = 500 * time.Millisecond

// last is the last line, as a program prints why it ends.
func (l *lastLines) last() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.kept) == 0 {
		return ""
	}
	return oneLine(l.kept[len(l.kept)-1])
}
