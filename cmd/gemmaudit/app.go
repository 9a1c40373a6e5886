package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/kernels/cpu"
	"github.com/gemmaudit/gemmaudit/kernels/cuda"
	stored "github.com/gemmaudit/gemmaudit/kernels/cuda/calibration/kept"
	"github.com/gemmaudit/gemmaudit/report"
	"github.com/gemmaudit/gemmaudit/results"
	"github.com/gemmaudit/gemmaudit/results/draft"
)

// app is what a command knows of the world outside its flags. Tests build one
// with a simulated device and buffers for streams.
type app struct {
	stdin  io.Reader
	stdout *stickyWriter
	stderr io.Writer
	env    func(string) (string, bool)
	now    func() time.Time
	after  func(time.Duration) <-chan time.Time
	// providers brings the devices; it is asked only by commands that need one,
	// because opening a device costs more than most commands do.
	providers func() []kernels.Provider

	// The global flags.
	device      string
	quiet       bool
	noColor     bool
	spreadsheet bool

	brought brought
	faults  faultFlags
	labels  labelFlags

	textfile textfile

	// command is the command line, as it is stored in runs.
	command string
	args    []string

	// patience is how long devices may take to be opened, asked and closed; replace starts the program
	// anew with one more variable in its environment.
	patience time.Duration
	replace  func(variable string) error
	// supervise runs a command line in a child whose outcome is what it writes last; nil runs all in this process.
	supervise func(args []string) (code int, err error)
	waits     atomic.Bool    // a child is running
	holds     atomic.Bool    // devices, or a run to add samples to, are open: the command has to end by itself
	end       func(code int) // ends the process
	goesOn    *continuation  // nil in a process that takes nobody's place
	out       string         // the run file or folder that is measured into
	began     time.Time      // when that began

	open   sync.Once
	reg    *kernels.Registry
	silent error // that devices do not answer
	// skipped are cases that were not measured again, since a device failed with them before.
	skipped []results.Case
	absent  []string // devices of a run that were warned of
	// toldConstants are the devices of whose constants something was told.
	toldConstants map[string]bool
}

// Main runs the program and returns its exit code. args are those after the
// program's name; env looks up an environment variable.
func Main(args []string, stdin io.Reader, stdout, stderr io.Writer, env func(string) (string, bool)) int {
	a := newApp(stdin, stdout, stderr, env, func() []kernels.Provider {
		constants := stored.Find(func(name string) string { v, _ := env(name); return v })
		return []kernels.Provider{cpu.Provider{}, cuda.Provider{Calibration: constants, Program: buildVersion()}}
	})
	a.supervise = superviseChild
	return a.main(args)
}

// newApp returns an app on the given streams and devices, with the real clock.
func newApp(stdin io.Reader, stdout, stderr io.Writer, env func(string) (string, bool), providers func() []kernels.Provider) *app {
	return &app{
		stdin:     stdin,
		stdout:    &stickyWriter{w: stdout},
		stderr:    stderr,
		env:       env,
		now:       time.Now,
		after:     time.After,
		providers: providers,
		patience:  patience,
		replace:   replaceProcess,
		end:       os.Exit,
	}
}

// main parses args, runs the command and turns its error into the exit code, which a parent that waits for it gets as well.
func (a *app) main(args []string) int {
	to, err := outcomeFile(a.env)
	if err != nil {
		printError(a.stderr, err)
		return exitCode(err)
	}
	if to != nil {
		a.supervise = nil
	}
	var once sync.Once
	tell := func(code int) { once.Do(func() { tellOutcome(to, code) }) }
	end := a.end
	a.end = func(code int) {
		tell(code)
		end(code)
	}
	code := a.carryOut(args)
	tell(code)
	return code
}

// carryOut carries a command line out.
func (a *app) carryOut(args []string) int {
	// A reader that went away is answered by EPIPE at the write, not by a signal
	// that kills a sweep of an hour.
	// Likewise a file size limit is answered by an error at the write.
	signal.Ignore(syscall.SIGPIPE, syscall.SIGXFSZ)
	ctx, cancel := a.interruptible(context.Background())
	defer cancel()

	a.command, a.args = commandLine(args), args
	root := newRootCommand(a)
	root.SetArgs(args)
	root.SetIn(a.stdin)
	root.SetOut(a.stdout)
	root.SetErr(a.stderr)
	var err error
	if a.goesOn, err = readContinuation(a.env); err == nil {
		err = a.printed(root.ExecuteContext(ctx))
	}
	if ctx.Err() == nil {
		err = a.goOnAfter(err)
	}
	// A verdict that was reached as the signal came is no answer to it: who sent it waits for 130.
	if _, child := isChild(err); ctx.Err() != nil && !child && exitCode(err) != exitInterrupted {
		err = interrupted(err)
	}
	err = a.writeTextfile(a.closeDevices(err))
	if a.stdout.err != nil && !brokenPipe(a.stdout.err) {
		err = besides(err, devicef("write standard output: %w", a.stdout.err))
	}
	if err == nil {
		return exitClean
	}
	if ctx.Err() != nil {
		printError(a.stderr, err)
		return exitInterrupted
	}
	if code, ok := isChild(err); ok {
		return code
	}
	printError(a.stderr, err)
	return exitCode(err)
}

// echo is how long after an interrupt another one is the same: timeout(1) and
// shells signal a process and then its group, a person is slower.
const echo = 200 * time.Millisecond

// grace is how long after an interrupt a command that measures nothing may take to end by itself. With the
// time to end the process it stays below a second.
const grace = 700 * time.Millisecond

// interruptible returns a context that the first interrupt cancels. It then
// steps aside, so that a second interrupt ends the process at once, even where stderr
// takes no more.
//
// A command that has opened no device, and no run to add samples to, loses nothing when it is ended in the middle:
// its results appear whole or not at all. It is ended after its grace, so that no loop over a large run need look
// at the context. Other commands end by themselves: their samples are stored first.
func (a *app) interruptible(parent context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancel(parent)
	signals := make(chan os.Signal, 1)
	ends := []os.Signal{os.Interrupt, syscall.SIGTERM}
	// A shell without job control has its background jobs ignore interrupts. Those that come
	// are meant, and to step aside would be to ignore them again.
	ignored := slices.DeleteFunc(slices.Clone(ends), func(s os.Signal) bool { return !signal.Ignored(s) })
	if !signal.Ignored(syscall.SIGHUP) { // as nohup(1) has it
		ends = append(ends, syscall.SIGHUP)
	}
	signal.Notify(signals, ends...)
	done := make(chan struct{})
	go func() {
		for waiting := true; waiting; {
			select {
			case <-signals:
				waiting = a.waits.Load() // a child is interrupted in this one's place
			case <-done:
				return
			}
		}
		go a.endAfter(a.after(grace), done)
		later := a.after(echo)
		told := make(chan struct{})
		go func() {
			a.notef("interrupted: finishing the block in progress; interrupt again to stop at once")
			close(told)
		}()
		select {
		case <-told:
			cancel()
			select {
			case <-later:
			case <-done:
				return
			}
		case <-later:
			cancel()
		}
		signal.Stop(signals)
		if len(ignored) == 0 {
			return
		}
		again := make(chan os.Signal, 1)
		signal.Notify(again, ignored...)
		select {
		case <-again:
			os.Exit(exitInterrupted)
		case <-done:
			signal.Stop(again)
		}
	}()
	var once sync.Once
	return ctx, func() {
		once.Do(func() {
			signal.Stop(signals)
			close(done)
			cancel()
		})
	}
}

// endAfter ends the process when the time has come, unless the command is done or has to end by itself.
func (a *app) endAfter(time <-chan time.Time, done <-chan struct{}) {
	select {
	case <-done:
		return
	case <-time:
	}
	if a.holds.Load() || a.waits.Load() {
		return
	}
	draft.RemoveAll()
	results.RemoveLocks()
	a.end(exitInterrupted)
}

// registry opens the devices at the first call. Where they do not answer, silent says so and there
// are none.
func (a *app) registry() *kernels.Registry {
	a.holds.Store(true)
	a.open.Do(func() {
		var reg *kernels.Registry
		a.silent = a.answered("open the devices", func() { reg = kernels.NewRegistry(a.brought.choose(a.providers())...) })
		if a.silent != nil {
			reg = kernels.NewRegistry()
		}
		a.reg = reg
	})
	return a.reg
}

// devices returns what --device selects.
func (a *app) devices() ([]kernels.Device, error) {
	devices, err := a.registry().Select(a.device)
	if a.silent != nil {
		return nil, a.silent
	}
	if err != nil {
		code := exitUsage
		if slices.ContainsFunc(a.registry().Missing(), func(m kernels.Missing) bool {
			return m.Name == a.device || m.Broken && strings.HasPrefix(a.device, m.Name+":")
		}) {
			code = exitDevice // it is there, and can't be used
		}
		return nil, hint(&commandError{code: code, err: err}, "`gemmaudit devices` lists what this machine has")
	}
	if len(devices) == 0 {
		return nil, devicef("device %q: this machine has none that can be used", a.device)
	}
	a.keep(devices...)
	if err := a.bring(devices); err != nil {
		return nil, err
	}
	a.tellConstants(devices)
	if a.device == "auto" && devices[0].Spec().Kind.Facts().Host {
		for _, m := range a.registry().Missing() {
			if m.Broken {
				a.warnf("%s is not taken: %s", m.Name, m.Reason)
			}
		}
	}
	if kind, all := strings.CutSuffix(a.device, "all"); all && strings.HasSuffix(kind, ":") {
		for _, m := range a.registry().Missing() {
			if strings.HasPrefix(m.Name, kind) {
				a.warnf("%s is left out: %s", m.Name, m.Reason)
			}
		}
	}
	return devices, nil
}

// keep closes all other devices, for as long as the command measures on these. What
// goes wrong with that is no fault of the command.
func (a *app) keep(devices ...kernels.Device) {
	if err := a.registry().Keep(devices...); err != nil {
		a.warnf("%s", oneLine(err.Error()))
	}
}

// oneDevice returns what --device selects when a command works on one device.
func (a *app) oneDevice() (kernels.Device, error) {
	devices, err := a.devices()
	if err != nil {
		return nil, err
	}
	if len(devices) > 1 {
		return nil, usagef("--device %s selects %d devices, expected one", a.device, len(devices))
	}
	return devices[0], nil
}

// notef writes one line to stderr for people; --quiet silences it. What a terminal would
// obey is escaped: names of files and words from them are anybody's.
func (a *app) notef(format string, args ...any) {
	if !a.quiet {
		fmt.Fprintln(a.stderr, oneLine(fmt.Sprintf(format, args...)))
	}
}

// warnf writes one line to stderr that --quiet does not silence, escaped as by notef.
func (a *app) warnf(format string, args ...any) {
	fmt.Fprintln(a.stderr, "warning: "+oneLine(fmt.Sprintf(format, args...)))
}

// stream wraps stdout or stderr with what can be shown on it.
func (a *app) stream(w io.Writer) *report.Stream {
	target := w
	if s, ok := w.(*stickyWriter); ok {
		target = s.w
	}
	s := report.NewStream(target, a.getenv)
	s.Writer = w
	if a.noColor {
		s.Style.Colour = false
	}
	s.Style.Spreadsheet = a.spreadsheet
	return s
}

// getenv is the value of an environment variable, empty when it is not set.
func (a *app) getenv(name string) string {
	v, _ := a.env(name)
	return v
}

// print renders a document on stdout.
func (a *app) print(doc *report.Document, format report.Format) error {
	return a.wrapPrint(doc.Render(a.stream(a.stdout), format))
}

// wrapPrint makes a format that some data can't take an error of the command line.
func (a *app) wrapPrint(err error) error {
	var unsupported *report.UnsupportedFormat
	if errors.As(err, &unsupported) {
		return usage(err)
	}
	return a.printed(err)
}

// printed is err without an error of stdout, which stdout keeps and main reports: a verdict is
// reached whether or not somebody reads it.
func (a *app) printed(err error) error {
	if a.stdout.err != nil && errors.Is(err, a.stdout.err) {
		return nil
	}
	return err
}

// stickyWriter remembers the first error, so that output which nobody checks
// for errors can't be lost in silence.
type stickyWriter struct {
	w   io.Writer
	err error
}

func (s *stickyWriter) Write(p []byte) (int, error) {
	if s.err != nil {
		return 0, s.err
	}
	n, err := s.w.Write(p)
	s.err = err
	return n, err
}

// commandLine is a command line that a shell reads as args.
func commandLine(args []string) string {
	words := []string{"gemmaudit"}
	for _, arg := range args {
		if arg == "" || strings.ContainsFunc(arg, func(r rune) bool {
			return !strings.ContainsRune("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_=+,./:@%", r)
		}) {
			arg = "'" + strings.ReplaceAll(arg, "'", `'\''`) + "'"
		}
		words = append(words, arg)
	}
	return strings.Join(words, " ")
}
