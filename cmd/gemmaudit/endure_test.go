package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/gemmaudit/gemmaudit/cmd/gemmaudit/process"
	"github.com/gemmaudit/gemmaudit/results"
)

// The extent of the test, set by make endure; without these flags it is skipped.
var (
	endureKills   = flag.Int("endure.kills", 0, "how many processes die by kill -9")
	endureSignals = flag.Int("endure.signals", 0, "how many processes get another signal")
	endureWorkers = flag.Int("endure.workers", 0, "how many workers of kernels in Python die by kill -9")
	endureDisk    = flag.Bool("endure.disk", false, "whether the disk is full at each write in turn")
	endureFor     = flag.Duration("endure.for", 0, "the time after which nothing new is begun; 0 is no limit")
	endureSeed    = flag.Uint64("endure.seed", 0, "what is drawn; 0 takes another seed each time")
	endureFolder  = flag.Int("endure.folder", -1, "the one folder that is gone through; -1 is all")
)

// seedOfEndurance is the flag's value, or a random one.
func seedOfEndurance() uint64 {
	if *endureSeed != 0 {
		return *endureSeed
	}
	return rand.Uint64N(1<<32-1) + 1
}

func deadline(began time.Time) time.Time {
	if *endureFor == 0 {
		return began.Add(1000 * time.Hour)
	}
	return began.Add(*endureFor)
}

// TestEndureSignals kills processes at random moments, restarts them in the same folder, and requires the
// output of an undisturbed process. Folders are tested in parallel.
func TestEndureSignals(t *testing.T) {
	if *endureKills+*endureSignals == 0 {
		t.Skip("make endure runs it")
	}
	seed := seedOfEndurance()
	// Enough runs that other load on the machine does not determine the time.
	const references = 3
	e := newEndurance(t, t.TempDir(), references)
	until := deadline(time.Now()) // the references take their time on a busy machine
	var counts struct {
		sync.Mutex
		starts map[string]*tally
	}
	counts.starts = map[string]*tally{}
	var killed, signalled, folders atomic.Int64
	enough := func() bool {
		return killed.Load() >= int64(*endureKills) && signalled.Load() >= int64(*endureSignals) || time.Now().After(until)
	}
	through := func(folder int) {
		s := &suffering{
			endurance: e, ordeal: ordeals[folder%len(ordeals)], rng: rand.New(rand.NewPCG(seed, uint64(folder))),
			killShare: float64(*endureKills) / float64(*endureKills+*endureSignals),
		}
		err := s.goThrough(enough, &killed, &signalled)
		folders.Add(1)
		counts.Lock()
		defer counts.Unlock()
		if counts.starts[s.name] == nil {
			counts.starts[s.name] = &tally{}
		}
		counts.starts[s.name].add(s.tally)
		if err == nil {
			err = os.RemoveAll(s.dir)
		}
		if err != nil {
			t.Errorf("%s: %v\nlast start: %s: %s\nkept: %s\nagain: make endure SEED=%d FOLDER=%d",
				s.name, err, commandLine(s.last), s.how, s.dir, seed, folder)
		}
	}
	if *endureFolder >= 0 {
		through(*endureFolder)
	} else {
		var next atomic.Int64
		var group errgroup.Group
		for range 2 * runtime.GOMAXPROCS(0) {
			group.Go(func() error {
				for !enough() && !t.Failed() {
					through(int(next.Add(1) - 1))
				}
				return nil
			})
		}
		_ = group.Wait()
	}
	t.Logf("seed %d: %d kill -9 and %d other signals in %d folders", seed, killed.Load(), signalled.Load(), folders.Load())
	for _, o := range ordeals {
		if c := counts.starts[o.name]; c != nil {
			t.Logf("%-8s %4d killed, %4d signalled, %4d came to their end", o.name, c.killed, c.signalled, c.ended)
		}
	}
	if killed.Load() == 0 && *endureKills > 0 {
		t.Error("no process was killed: nothing was tested")
	}
}

type tally struct{ killed, signalled, ended int }

func (t *tally) add(u tally) {
	t.killed += u.killed
	t.signalled += u.signalled
	t.ended += u.ended
}

type suffering struct {
	*endurance
	*ordeal
	rng       *rand.Rand
	killShare float64

	dir string
	tally
	kept []results.Sample // samples after the last kill
	last []string         // the last command line
	how  string           // what ended it
}

// mostStarts is the number of kills after which a command may finish.
const mostStarts = 40

// goThrough starts, kills and checks the command until it finishes, undisturbed once there were enough
// signals.
func (s *suffering) goThrough(enough func() bool, killed, signalled *atomic.Int64) (err error) {
	if s.dir, err = s.prepare(s.ordeal); err != nil {
		return err
	}
	for starts := 0; ; starts++ {
		args := s.next(s.dir)
		if args == nil {
			return s.finish(s.ordeal, s.dir)
		}
		d := s.draw()
		if starts >= mostStarts || enough() {
			d = blow{}
		}
		s.last = args
		end, err := s.start(s.dir, args, d)
		if err != nil {
			s.how = d.String()
			return err
		}
		s.how = end.String()
		if err := s.judge(end, d); err != nil {
			return err
		}
		status, _ := end.state.Sys().(syscall.WaitStatus)
		switch {
		case !end.hit:
		case d.first() == syscall.SIGKILL && !status.Signaled(): // it had already ended
		case d.first() == syscall.SIGKILL:
			s.killed++
			killed.Add(1)
		default:
			s.signalled++
			signalled.Add(1)
		}
		if s.kept, err = s.check(s.ordeal, s.dir, s.kept, s.rng.IntN(2) == 0); err != nil {
			return err
		}
		if end.own(s.code) {
			s.ended++
			return s.finish(s.ordeal, s.dir)
		}
		if err := s.told(end); err != nil {
			return err
		}
	}
}

// blow is the signals for a process, with their times. Without signals the process runs undisturbed.
type blow struct {
	signals []syscall.Signal
	after   time.Duration // of the first signal, since the start
	pause   time.Duration // between two
}

func (b blow) first() syscall.Signal {
	if len(b.signals) == 0 {
		return 0
	}
	return b.signals[0]
}

func (b blow) String() string {
	if len(b.signals) == 0 {
		return "undisturbed"
	}
	return fmt.Sprintf("%v after %v", b.signals, b.after)
}

// draw picks a signal and a moment within the command's undisturbed time, or somewhat later, because other
// processes slow it down.
func (s *suffering) draw() blow {
	const later = 1.2
	b := blow{after: time.Duration(s.rng.Float64() * later * float64(s.took(s.ordeal)))}
	if s.rng.Float64() < s.killShare {
		b.signals = []syscall.Signal{syscall.SIGKILL}
		return b
	}
	others := [][]syscall.Signal{
		{syscall.SIGINT}, {syscall.SIGTERM}, {syscall.SIGHUP}, {syscall.SIGQUIT},
		{syscall.SIGSTOP, syscall.SIGCONT}, {syscall.SIGTERM, syscall.SIGTERM},
	}
	b.signals = others[s.rng.IntN(len(others))]
	if b.pause = 3 * process.Echo / 2; b.first() == syscall.SIGSTOP {
		b.pause = time.Duration(s.rng.Int64N(int64(100 * time.Millisecond)))
	}
	return b
}

type ending struct {
	blow           blow
	hit            bool // the process was alive at the first signal
	state          *os.ProcessState
	stdout, stderr string
}

func (e ending) String() string {
	return fmt.Sprintf("%v, hit %v: %v\n%s", e.blow, e.hit, e.state, e.stderr)
}

func (e ending) own(code int) bool { return e.state.ExitCode() == code }

// hung is the time after which a process counts as hanging: a thousand times its usual duration.
const hung = 3 * time.Minute

func (e *endurance) start(dir string, args []string, b blow) (ending, error) {
	ctx, cancel := context.WithTimeout(e.ctx, hung)
	defer cancel()
	cmd := exec.CommandContext(ctx, e.program[0], slices.Concat(e.program[1:], args)...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "TERM=dumb", "TMPDIR="+e.scratch)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Start(); err != nil {
		return ending{}, err
	}
	over := make(chan error, 1)
	go func() { over <- cmd.Wait() }()
	out := ending{blow: b}
	var err error
	waits, gone := b.after, false
	for i, sent := range b.signals {
		select {
		case err = <-over:
			gone = true
		case <-time.After(waits):
			out.hit = cmd.Process.Signal(sent) == nil || i > 0
		}
		if gone {
			break
		}
		waits = b.pause
	}
	if !gone {
		err = <-over
	}
	out.state, out.stdout, out.stderr = cmd.ProcessState, stdout.String(), stderr.String()
	var exit *exec.ExitError
	if ctx.Err() != nil {
		return out, fmt.Errorf("%s hangs: it had not ended %v after its start: %v", commandLine(args), hung, err)
	}
	if err != nil && !errors.As(err, &exit) {
		return out, err
	}
	return out, nil
}

// judge returns an error unless the process ended on its own or as the signals require.
func (s *suffering) judge(end ending, b blow) error {
	code := end.state.ExitCode()
	status, _ := end.state.Sys().(syscall.WaitStatus)
	switch {
	case end.own(s.code):
		return nil
	case !end.hit:
	case status.Signaled() && slices.Contains(b.signals, status.Signal()):
		return nil // SIGKILL, or a process before its setup, or the second signal
	case b.first() == syscall.SIGQUIT && strings.Contains(end.stderr, "SIGQUIT"):
		return nil
	case code == exitInterrupted && slices.Contains([]syscall.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP}, b.first()):
		return nil
	}
	return fmt.Errorf("exit code %d or signal %v, expected %d or what %v brings about", code, status, s.code, b.signals)
}

var interruptedAfter = regexp.MustCompile(`interrupted after ([0-9]+) of [0-9]+ samples`)

// told compares an interrupted sweep's summary with the stored samples.
func (s *suffering) told(end ending) error {
	text := interruptedAfter.FindStringSubmatch(end.stderr)
	if text == nil {
		return nil
	}
	said, err := strconv.Atoi(text[1])
	if err != nil {
		return err
	}
	stored := 0
	for _, x := range s.kept {
		if x.Phase == results.PhaseSweep {
			stored++
		}
	}
	if said != stored {
		return fmt.Errorf("it was interrupted after %d samples by its own account, and %d are stored", said, stored)
	}
	return nil
}

// endurance is shared by all folders: the commands' inputs, and the output of undisturbed commands.
type endurance struct {
	ctx      context.Context
	program  []string // starts the simulated program
	parent   string   // of the folders
	fixtures string
	scratch  string // for temporary files and copies of runs

	undisturbed map[string]reference
}

// newEndurance makes the fixtures and runs every command undisturbed, the given number of times, below
// parent.
func newEndurance(t *testing.T, parent string, times int) *endurance {
	t.Helper()
	check := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	program, err := exec.LookPath("gemmaudit-sim")
	check(err)
	// A folder of the test would be removed after a failure.
	kept, err := os.MkdirTemp("", "endure-")
	check(err)
	t.Cleanup(func() {
		if !t.Failed() {
			if err := os.RemoveAll(kept); err != nil {
				t.Error(err)
			}
		}
	})
	e := &endurance{
		ctx: t.Context(), program: []string{program}, parent: kept, fixtures: filepath.Join(parent, "fixtures"),
		scratch: filepath.Join(parent, "scratch"), undisturbed: map[string]reference{},
	}
	check(os.Mkdir(e.fixtures, 0o755))
	check(os.Mkdir(e.scratch, 0o755))
	for _, f := range fixtures {
		end, err := e.start(e.fixtures, f, blow{})
		check(err)
		if !end.own(exitClean) {
			t.Fatalf("%s: %v", commandLine(f), end)
		}
	}
	for _, o := range ordeals {
		r, err := e.reference(o, times)
		if err != nil {
			t.Fatalf("%s, undisturbed: %v", o.name, err)
		}
		e.undisturbed[o.name] = r
	}
	return e
}

func (e *endurance) took(o *ordeal) time.Duration { return e.undisturbed[o.name].took }
