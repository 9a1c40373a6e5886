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

	"github.com/gemmaudit/gemmaudit/cmd/gemmaudit/process"
	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/kernels/cpu"
	"github.com/gemmaudit/gemmaudit/kernels/cuda"
	"github.com/gemmaudit/gemmaudit/report"
	"github.com/gemmaudit/gemmaudit/results"
	"github.com/gemmaudit/gemmaudit/results/draft"
	"github.com/gemmaudit/gemmaudit/rules"
	"github.com/gemmaudit/gemmaudit/sweep/health"
)

// app holds a command's environment. Tests build one with a simulated device and buffers for streams.
type app struct {
	stdin  io.Reader
	stdout *stickyWriter
	stderr io.Writer
	env    func(string) (string, bool)
	now    func() time.Time
	after  func(time.Duration) <-chan time.Time
	// providers returns the devices. Only commands that need one call it, because opening a device takes
	// longer than most commands.
	providers func() []kernels.Provider

	// The global flags.
	device      string
	quiet       bool
	noColor     bool
	spreadsheet bool

	brought brought
	faults  faultFlags
	labels  labelFlags

	stage stage // set while suspects or remedies are measured

	textfile textfile

	command string
	args    []string

	// patience limits how long devices may take to open, answer and close. replace restarts the program with
	// one more environment variable.
	patience time.Duration
	replace  func(variable string) error
	// supervise runs a command line in a child that reports its outcome at the end; nil runs it in this
	// process.
	supervise func(args []string) (code int, err error)
	waits     atomic.Bool    // a child is running
	holds     atomic.Bool    // devices, or a run to add samples to, are open: the command must end on its own
	end       func(code int) // ends the process
	goesOn    *continuation  // nil in a process started for the first time
	out       string         // the run file or folder being measured
	began     time.Time      // when that began

	open   sync.Once
	reg    *kernels.Registry
	silent error
	// skipped holds cases not measured again because a device failed with them before.
	skipped []results.Case
	absent  []string // missing devices already warned about
	// toldConstants holds the devices whose constants were already mentioned.
	toldConstants map[string]bool
}

// Main runs the program and returns its exit code. args excludes the program's name; env looks up an
// environment variable.
func Main(args []string, stdin io.Reader, stdout, stderr io.Writer, env func(string) (string, bool)) int {
	a := newApp(stdin, stdout, stderr, env, func() []kernels.Provider {
		return []kernels.Provider{cpu.Provider{}, cuda.Provider{}}
	})
	a.supervise = process.Supervise
	return a.main(args)
}

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
		replace:   process.Replace,
		end:       os.Exit,
	}
}

// main parses args, runs the command and converts its error to the exit code, which it also sends to a
// waiting parent.
func (a *app) main(args []string) int {
	to, err := process.OutcomeFile(a.env)
	if err != nil {
		err = usage(err)
		printError(a.stderr, err)
		return exitCode(err)
	}
	if to != nil {
		a.supervise = nil
	}
	var once sync.Once
	tell := func(code int) { once.Do(func() { process.TellOutcome(to, code) }) }
	end := a.end
	a.end = func(code int) {
		tell(code)
		end(code)
	}
	code := a.carryOut(args)
	tell(code)
	return code
}

func (a *app) carryOut(args []string) int {
	// A closed pipe must return EPIPE from the write, not kill an hour-long sweep by signal. The same holds
	// for a file size limit.
	signal.Ignore(syscall.SIGPIPE, syscall.SIGXFSZ)
	ctx, cancel := a.interrupts().Context(context.Background())
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
	// A verdict reached as the signal arrives must not hide the interruption: the sender expects 130.
	if _, child := isChild(err); ctx.Err() != nil && !child && exitCode(err) != exitInterrupted {
		err = interrupted(err)
	}
	err = a.writeTextfile(a.closeDevices(err))
	if a.stdout.err != nil && !brokenPipe(a.stdout.err) {
		err = joinErrors(err, devicef("write standard output: %w", a.stdout.err))
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

// interrupts lets a command without an open device or a run to add samples to be ended after its grace period.
func (a *app) interrupts() process.Interrupts {
	return process.Interrupts{After: a.after, Waits: a.waits.Load, Busy: a.holds.Load,
		Told: func() { a.notef("interrupted: finishing the current block; interrupt again to stop at once") },
		End: func() {
			draft.RemoveAll()
			results.RemoveLocks()
			a.end(exitInterrupted)
		}}
}

// registry opens the devices at the first call. If they do not answer, it sets silent and returns an empty registry.
func (a *app) registry() *kernels.Registry {
	a.holds.Store(true)
	a.open.Do(func() {
		var reg *kernels.Registry
		a.silent = a.answered("open the devices",
			func() { reg = kernels.NewRegistry(kernels.ChooseLibraries(a.providers(), a.brought.paths)...) })
		if a.silent != nil {
			reg = kernels.NewRegistry()
		}
		a.reg = reg
	})
	return a.reg
}

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
			code = exitDevice // it exists but can't be used
		}
		return nil, hint(&commandError{code: code, err: err}, "`gemmaudit devices` lists the devices of this machine")
	}
	if len(devices) == 0 {
		return nil, devicef("device %q: this machine has no usable one", a.device)
	}
	a.keep(devices...)
	if err := a.bring(devices); err != nil {
		return nil, err
	}
	a.tellConstants(devices)
	if a.device == "auto" && devices[0].Spec().Kind.Facts().Host {
		for _, m := range a.registry().Missing() {
			if m.Broken {
				a.warnf("%s is not used: %s", m.Name, m.Reason)
			}
		}
		release := func() string {
			text, _ := os.ReadFile("/etc/os-release") // if unreadable, no command is suggested
			return string(text)
		}
		if text := health.MissingLibraries(a.registry().Missing(), release); text != "" {
			a.notef("%s", text)
		}
	}
	if kind, all := strings.CutSuffix(a.device, "all"); all && strings.HasSuffix(kind, ":") {
		for _, m := range a.registry().Missing() {
			if strings.HasPrefix(m.Name, kind) {
				a.warnf("%s skipped: %s", m.Name, m.Reason)
			}
		}
	}
	return devices, nil
}

// keep closes all other devices while the command measures on these. An error is only a warning, because the
// command does not need those devices.
func (a *app) keep(devices ...kernels.Device) {
	if err := a.registry().Keep(devices...); err != nil {
		a.warnf("%s", oneLine(err.Error()))
	}
}

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

// notef writes a line to stderr for people; --quiet silences it. It escapes terminal control characters,
// because file names and their content are untrusted.
func (a *app) notef(format string, args ...any) {
	if !a.quiet {
		fmt.Fprintln(a.stderr, oneLine(fmt.Sprintf(format, args...)))
	}
}

// warnf writes a line to stderr despite --quiet, escaped as in notef.
func (a *app) warnf(format string, args ...any) {
	fmt.Fprintln(a.stderr, "warning: "+oneLine(fmt.Sprintf(format, args...)))
}

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

func (a *app) getenv(name string) string {
	v, _ := a.env(name)
	return v
}

func (a *app) print(doc *report.Document, format report.Format) error {
	return a.wrapPrint(doc.Render(a.stream(a.stdout), format))
}

func (a *app) wrapPrint(err error) error {
	var unsupported *report.UnsupportedFormat
	if errors.As(err, &unsupported) {
		return usage(err)
	}
	return a.printed(err)
}

// printed returns err unless it is an error of stdout, which stdout keeps and main reports: a closed output
// must not change the verdict.
func (a *app) printed(err error) error {
	if a.stdout.err != nil && errors.Is(err, a.stdout.err) {
		return nil
	}
	return err
}

// stickyWriter keeps the first error, so unchecked writes cannot lose output silently.
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

func commandLine(args []string) string { return rules.CommandLine("gemmaudit", args...) }
