package results

import (
	"bufio"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gemmaudit/gemmaudit/kernels"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"
)

// The test binary starts itself as the process that dies; the variable selects its action.
const (
	HelperVariable = "GEMMAUDIT_RESULTS_HELPER"
	helperAppend   = "append"
	helperCycle    = "cycle"
	helperFill     = "fill"
	helperHold     = "hold"
	HelperImport   = "import"
	HelperLoad     = "load"
	helperMigrate  = "migrate"
)

// LargeHelper runs helperImport and helperLoad.
var LargeHelper func(what string, args []string) error

func TestMain(m *testing.M) {
	if what := os.Getenv(HelperVariable); what != "" {
		help := func() error { return helper(what, os.Args[1]) }
		if what == HelperImport || what == HelperLoad {
			help = func() error { return LargeHelper(what, os.Args[1:]) }
		}
		if err := help(); err != nil {
			fmt.Println("error:", err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func helper(what, path string) error {
	if what == helperFill {
		// A file size limit of 300 kB replaces a full disk, which needs privileges. Ignoring the signal makes
		// the write fail instead.
		signal.Ignore(syscall.SIGXFSZ)
		if err := unix.Setrlimit(unix.RLIMIT_FSIZE, &unix.Rlimit{Cur: 300_000, Max: 300_000}); err != nil {
			return err
		}
	}
	if what == helperMigrate {
		fmt.Println("begins")
	}
	r, err := OpenAppend(path)
	if err != nil {
		return err
	}
	if what == helperMigrate {
		if err := r.Close(); err != nil {
			return err
		}
		time.Sleep(time.Hour) // until it is killed
	}
	if what == helperHold {
		fmt.Println("held")
		time.Sleep(time.Hour)
	}
	cases, err := r.Cases()
	if err != nil {
		return err
	}
	next, err := r.NextSeq()
	if err != nil {
		return err
	}
	done, err := r.Done(PhaseSweep)
	if err != nil {
		return err
	}
	for round := 0; ; round++ {
		for _, c := range cases {
			if slices.Contains(done[c.ID], round) {
				continue
			}
			if err := r.Append(SomeSample(c, PhaseSweep, round, next)); err != nil {
				var full *FullError
				if what == helperFill && errors.As(err, &full) {
					fmt.Println("full:", err)
					// Close can't fold the journal without room, but must return.
					fmt.Println("closed:", r.Close())
					return nil
				}
				return err
			}
			fmt.Println("seq", next)
			next++
			if what == helperCycle && next%3 == 0 {
				// Here death can also fall into Close and OpenAppend.
				if err := r.Close(); err != nil {
					return err
				}
				if r, err = OpenAppend(path); err != nil {
					return err
				}
			}
		}
	}
}

func startHelper(t *testing.T, what, path string) (*exec.Cmd, *bufio.Scanner) {
	t.Helper()
	cmd := exec.Command(os.Args[0], path)
	cmd.Env = append(os.Environ(), HelperVariable+"="+what)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	t.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
	})
	return cmd, bufio.NewScanner(out)
}

func emptyRun(t testing.TB) string {
	t.Helper()
	r, _ := NewRun(t, 4, 8, 12, 16)
	must(t, r.Close())
	return r.Path()
}

// checkAcknowledged compares the run left behind with the seqs that its writer printed.
func checkAcknowledged(t *testing.T, path string, acknowledged []int64) {
	t.Helper()
	r, err := Open(path)
	must(t, err)
	defer r.Close()
	samples, err := r.Samples(PhaseSweep)
	must(t, err)
	seen := map[int64]bool{}
	rounds := map[string]bool{}
	for i, s := range samples {
		if s.Seq != int64(i) {
			t.Fatalf("sample %d has seq %d", i, s.Seq)
		}
		seen[s.Seq] = true
		if key := fmt.Sprint(s.CaseID, s.Phase, s.Round); rounds[key] {
			t.Fatalf("%v is there twice", s)
		} else {
			rounds[key] = true
		}
	}
	for _, seq := range acknowledged {
		if !seen[seq] {
			t.Fatalf("seq %d was acknowledged and is lost; the run has %d samples", seq, len(samples))
		}
	}
	// At each death one sample may be stored but not yet printed.
	if extra := len(samples) - len(acknowledged); extra < 0 {
		t.Fatalf("%d samples, %d acknowledged", len(samples), len(acknowledged))
	}
}

func TestKilledAtAnyMoment(t *testing.T) {
	for _, tt := range []struct {
		what       string
		mostBefore int           // samples before the death
		within     time.Duration // time of the death after that
	}{
		{helperAppend, 400, 300 * time.Microsecond},
		{helperCycle, 12, 10 * time.Millisecond},
	} {
		t.Run(tt.what, func(t *testing.T) {
			path := emptyRun(t)
			var acknowledged []int64
			for range 10 {
				cmd, lines := startHelper(t, tt.what, path)
				// Counting samples before time puts the death at any point, on slow machines too.
				after := 1 + rand.IntN(tt.mostBefore)
				for lines.Scan() {
					word, number, _ := strings.Cut(lines.Text(), " ")
					if word != "seq" {
						t.Fatalf("the writer says %q", lines.Text())
					}
					seq, err := strconv.ParseInt(number, 10, 64)
					must(t, err)
					acknowledged = append(acknowledged, seq)
					if after--; after == 0 {
						go func() {
							time.Sleep(rand.N(tt.within))
							cmd.Process.Kill()
						}()
					}
				}
				cmd.Wait()
				checkAcknowledged(t, path, acknowledged)
			}
			if len(acknowledged) < 10 {
				t.Fatalf("%d samples were acknowledged: nothing was tested", len(acknowledged))
			}
			r, err := OpenAppend(path)
			must(t, err)
			must(t, r.Close())
			checkAcknowledged(t, path, acknowledged)
			if entries, _ := os.ReadDir(filepath.Dir(path)); len(entries) != 1 {
				t.Errorf("after a clean end there are %v, expected the one file", entries)
			}
		})
	}
}

func TestDiskFull(t *testing.T) {
	path := emptyRun(t)
	_, lines := startHelper(t, helperFill, path)
	var acknowledged []int64
	full := ""
	for lines.Scan() {
		if word, number, _ := strings.Cut(lines.Text(), " "); word == "seq" {
			seq, err := strconv.ParseInt(number, 10, 64)
			must(t, err)
			acknowledged = append(acknowledged, seq)
		} else if strings.HasPrefix(word, "full") {
			full = number
		} else if word == "error:" {
			t.Fatal(lines.Text())
		}
	}
	if !strings.HasPrefix(full, path+": disk full: append sample of case") {
		t.Errorf("error %q, expected the path and 'disk full'", full)
	}
	if len(acknowledged) < 10 {
		t.Errorf("%d samples fitted", len(acknowledged))
	}
	checkAcknowledged(t, path, acknowledged)
	// With space again the run continues.
	r, err := OpenAppend(path)
	must(t, err)
	next, err := r.NextSeq()
	must(t, err)
	cases, err := r.Cases()
	must(t, err)
	must(t, r.Append(SomeSample(cases[0], PhaseConfirm, 0, next)))
	must(t, r.Close())
}

func TestLock(t *testing.T) {
	path := emptyRun(t)
	cmd, lines := startHelper(t, helperHold, path)
	if !lines.Scan() || lines.Text() != "held" {
		t.Fatalf("the holder says %q", lines.Text())
	}
	var locked *LockedError
	if _, err := OpenAppend(path); !errors.As(err, &locked) || locked.PID != cmd.Process.Pid {
		t.Fatalf("%v, expected the refusal to name process %d", err, cmd.Process.Pid)
	}
	r, err := Open(path)
	must(t, err) // reading is allowed meanwhile
	if w := r.Warnings(); len(w) != 1 || !strings.Contains(w[0], fmt.Sprintf("process %d is still writing", cmd.Process.Pid)) {
		t.Errorf("warnings %q", w)
	}
	must(t, r.Close())
	must(t, cmd.Process.Kill())
	cmd.Wait()
	if _, err := os.Stat(lockPath(path)); err != nil {
		t.Fatalf("the killed holder left no lock file, so this test shows nothing: %v", err)
	}
	r, err = OpenAppend(path)
	must(t, err) // a stale lock does not block
	defer r.Close()
	if _, err := OpenAppend(path); !errors.As(err, &locked) || locked.PID != os.Getpid() {
		t.Fatalf("%v, expected the refusal to name this process", err)
	}
}

// Reads a run from a read-only folder, as far as the copy goes; permissions don't stop root.
func TestCopyOfUnfinishedRun(t *testing.T) {
	w, cases := NewRun(t, 4)
	for i := range 20 {
		must(t, w.Append(SomeSample(cases[0], PhaseSweep, i, int64(i))))
	}
	r := &Run{path: w.Path(), file: w.Path()}
	must(t, r.copyAside())
	defer r.scratch.Close()
	must(t, r.read(filepath.Join(r.scratch.Path(), "run.db"), "mode=rw", header{pageSize: 4096}))
	samples, err := r.Samples(PhaseSweep)
	must(t, err)
	if len(samples) != 20 {
		t.Errorf("%d samples in the copy, expected 20", len(samples))
	}
	scratch := r.scratch.Path()
	must(t, r.Close())
	if _, err := os.Stat(scratch); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the copy is left behind: %v", err)
	}
}

func TestReadOnlyFolder(t *testing.T) {
	if os.Geteuid() == 0 {
		t.Skip("permissions don't stop root")
	}
	w, cases := NewRun(t, 4)
	must(t, w.Append(SomeSample(cases[0], PhaseSweep, 0, 0)))
	dir := t.TempDir()
	must(t, copyFile(filepath.Join(dir, "run.db"), w.Path()))
	must(t, copyFile(filepath.Join(dir, "run.db-wal"), w.Path()+"-wal"))
	must(t, os.Chmod(dir, 0o555))
	t.Cleanup(func() { os.Chmod(dir, 0o755) })
	r, err := Open(filepath.Join(dir, "run.db"))
	must(t, err)
	defer r.Close()
	samples, err := r.Samples(PhaseSweep)
	must(t, err)
	if len(samples) != 1 || !strings.Contains(strings.Join(r.Warnings(), "\n"), "a copy of the run") {
		t.Errorf("%d samples, warnings %q", len(samples), r.Warnings())
	}
	if _, err := Create(filepath.Join(dir, "other.db"), SomeMeta()); !errors.Is(err, os.ErrPermission) {
		t.Errorf("%v, expected that the folder can't be written", err)
	}
}

func TestJournalLeftBehind(t *testing.T) {
	w, cases := NewRun(t, 4)
	must(t, w.Append(SomeSample(cases[0], PhaseSweep, 0, 0)))
	path := filepath.Join(t.TempDir(), "copied.db")
	must(t, copyFile(path, w.Path()))
	r, err := Open(path)
	if err == nil {
		// The file alone is valid, but only up to the last fold.
		if !strings.Contains(strings.Join(r.Warnings(), "\n"), "-wal") {
			t.Errorf("warnings %q, expected one about the missing journal", r.Warnings())
		}
		r.Close()
	}
}

// The journal can't be folded during a read; this is no error and loses nothing.
func TestCloseDuringRead(t *testing.T) {
	w, cases := NewRun(t, 4)
	must(t, w.Append(SomeSample(cases[0], PhaseSweep, 0, 0)))
	reader, err := Open(w.Path())
	must(t, err)
	must(t, w.Append(SomeSample(cases[0], PhaseSweep, 1, 1)))
	must(t, w.Close())
	for _, r := range []*Run{reader, nil} {
		if r == nil {
			must(t, reader.Close())
			r, err = Open(w.Path())
			must(t, err)
		}
		samples, err := r.Samples(PhaseSweep)
		must(t, err)
		if len(samples) != 2 {
			t.Errorf("%d samples, expected 2", len(samples))
		}
		if r != reader {
			must(t, r.Close())
		}
	}
	again, err := OpenAppend(w.Path())
	must(t, err)
	must(t, again.Close())
	if entries, _ := os.ReadDir(filepath.Dir(w.Path())); len(entries) != 1 {
		t.Errorf("%v, expected the one file", entries)
	}
}

// Checked by the race detector and the count.
func TestConcurrentUse(t *testing.T) {
	const writers, each = 4, 25
	r, cases := NewRun(t, 1, 2, 3, 4)
	var group errgroup.Group
	for i := range writers {
		group.Go(func() error {
			for round := range each {
				if err := r.Append(SomeSample(cases[i], PhaseSweep, round, int64(i*each+round))); err != nil {
					return err
				}
				if _, err := r.Series(); err != nil {
					return err
				}
			}
			return r.Fail(Failure{CaseID: cases[i].ID, Phase: PhaseSweep, Round: each, Reason: "over"})
		})
	}
	must(t, group.Wait())
	samples, err := r.Samples("")
	must(t, err)
	if len(samples) != writers*each {
		t.Errorf("%d samples, expected %d", len(samples), writers*each)
	}
}

func TestJournalOfARunThatIsGone(t *testing.T) {
	other := Case{ID: 1, SeriesKey: SeriesKey{Device: "other", Kernel: "lib", Subject: kernels.Product(kernels.FP32, 8, 16)}, M: 7}
	fill := func(w *Writer) error {
		id, err := w.Series(other.SeriesKey)
		return errors.Join(err, w.Case(id, other), w.Meta(SomeMeta()))
	}
	for name, make := range map[string]func(path string) error{
		"created": func(path string) error {
			r, err := Create(path, SomeMeta())
			if err != nil {
				return err
			}
			_, err = r.AddCases([]Case{other})
			return errors.Join(err, r.Close())
		},
		"built": func(path string) error {
			r, err := Build(t.Context(), path, fill)
			if err != nil {
				return err
			}
			return r.Close()
		},
		"replaced": func(path string) error {
			r, err := Build(t.Context(), path+".new", fill)
			if err != nil {
				return err
			}
			return errors.Join(Replace(path+".new", path), r.Close())
		},
	} {
		t.Run(name, func(t *testing.T) {
			w, cases := NewRun(t, 40)
			must(t, w.Append(SomeSample(cases[0], PhaseSweep, 0, 0)))
			dir := t.TempDir()
			path := filepath.Join(dir, "run.db")
			for _, suffix := range []string{"-wal", "-shm"} {
				must(t, copyFile(path+suffix, w.Path()+suffix))
			}
			if name == "replaced" {
				must(t, copyFile(path, w.Path()))
			}
			must(t, make(path))
			r, err := Open(path)
			must(t, err)
			defer r.Close()
			got, err := r.Cases()
			must(t, err)
			if len(got) != 1 || got[0].Device != "other" || len(r.Warnings()) > 0 {
				t.Errorf("%d cases %v, warnings %q", len(got), got, r.Warnings())
			}
		})
	}
}

func TestReplaceRefusesAWriter(t *testing.T) {
	w, cases := NewRun(t, 1)
	part := filepath.Join(t.TempDir(), "part.db")
	other, err := Create(part, SomeMeta())
	must(t, err)
	must(t, other.Close())
	var locked *LockedError
	if err := Replace(part, w.Path()); !errors.As(err, &locked) {
		t.Errorf("%v, expected that it is locked", err)
	}
	must(t, w.Append(SomeSample(cases[0], PhaseSweep, 0, 0)))
	must(t, w.Close())
	must(t, Replace(part, w.Path()))
}
