package results

import (
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
	"pgregory.net/rapid"
)

func finishedRun(t testing.TB) string {
	t.Helper()
	r, cases := NewRun(t, 4, 8, 12, 16, 20, 24)
	seq := int64(0)
	for round := range 20 {
		for _, c := range cases {
			must(t, r.Append(SomeSample(c, PhaseSweep, round, seq)))
			seq++
		}
	}
	must(t, r.Fail(Failure{CaseID: 1, Phase: PhaseConfirm, Round: 0, Reason: "no"}))
	must(t, r.SetState("status", "complete"))
	must(t, r.Close())
	return r.Path()
}

// Opening a pipe would wait for its writer; reading a device would never end.
func TestOpenRefusesWhatIsNoFile(t *testing.T) {
	pipe := filepath.Join(t.TempDir(), "run.db")
	must(t, unix.Mkfifo(pipe, 0o644))
	for _, path := range []string{pipe, "/dev/zero"} {
		for name, open := range map[string]func(string) (*Run, error){"Open": Open, "OpenAppend": OpenAppend} {
			_, err := open(path)
			var f *FormatError
			if !errors.As(err, &f) || f.Reason != "is a pipe or a device, not a run" {
				t.Errorf("%s(%s): %v, expected a FormatError", name, path, err)
			}
		}
	}
}

func TestOpenRefuses(t *testing.T) {
	whole, err := os.ReadFile(finishedRun(t))
	must(t, err)
	patched := func(off int, value uint32) []byte {
		b := append([]byte(nil), whole...)
		binary.BigEndian.PutUint32(b[off:], value)
		return b
	}
	for _, tt := range []struct {
		name   string
		data   []byte
		reason string
		hint   string
	}{
		{"empty", nil, "the file is empty", foreignHint},
		{"header cut", whole[:10], "the run is truncated: 10 bytes, less than its header", DamagedHint},
		{"header cut later", whole[:60], "the run is truncated: 60 bytes, less than its header", DamagedHint},
		{"one page", whole[:4096], "the run is truncated: 4096 bytes of ", DamagedHint},
		{"last byte", whole[:len(whole)-1], "the run is truncated: ", DamagedHint},
		{"csv", []byte("batch,kernel_time\n1,2\n"), `not a run: it begins with "batch,kernel_time\n1,"`, csvHint},
		{"binary", []byte("\x7fELF\x02\x01\x01\x00\x00\x00"), "not a run: it begins with 7f 45 4c 46", foreignHint},
		{"other SQLite file", patched(68, 0), "an SQLite file, but not a run: its application id is 0x00000000, a run's is 0x476d4175",
			foreignHint},
		{"newer", patched(60, SchemaVersion+6), "the run has schema version 8, this program reads up to version 2", upgradeHint},
		{"no version", patched(60, 0), "the run has schema version 0, expected 1 to 2", DamagedHint},
		{"overwritten", append(append([]byte(nil), whole[:200]...), make([]byte, len(whole)-200)...), "the run is damaged: ", DamagedHint},
	} {
		t.Run(tt.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "run.db")
			must(t, os.WriteFile(path, tt.data, 0o644))
			for name, open := range map[string]func(string) (*Run, error){"Open": Open, "OpenAppend": OpenAppend} {
				_, err := open(path)
				var f *FormatError
				if !errors.As(err, &f) {
					t.Fatalf("%s: %v, expected a FormatError", name, err)
				}
				if f.Path != path || !strings.HasPrefix(f.Reason, tt.reason) || f.Hint != tt.hint {
					t.Errorf("%s:\n got %q, hint %q\nwant %q, hint %q", name, f.Reason, f.Hint, tt.reason, tt.hint)
				}
			}
			if entries, _ := os.ReadDir(filepath.Dir(path)); len(entries) != 1 {
				t.Errorf("files were left: %v", entries)
			}
		})
	}
	if _, err := Open(filepath.Join(t.TempDir(), "none.db")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a missing file: %v", err)
	}
	var f *FormatError
	if _, err := Open(t.TempDir()); !errors.As(err, &f) {
		t.Errorf("a folder: %v", err)
	}
}

func TestReadOnlyRunRefusesWrites(t *testing.T) {
	r, err := Open(finishedRun(t))
	must(t, err)
	defer r.Close()
	before, err := r.Samples("")
	must(t, err)
	for name, write := range map[string]func() error{
		"append": func() error { return r.Append(before[0]) },
		"fail":   func() error { return r.Fail(Failure{CaseID: 1, Phase: PhaseSweep, Round: 99}) },
		"state":  func() error { return r.SetState("a", "b") },
		"label":  func() error { return r.SetLaunch(1, "b", Launch{}) },
		"clock":  func() error { return r.SetReferenceClock("cpu", 1) },
		"cases":  func() error { _, err := r.AddCases([]Case{{SeriesKey: SomeKey, M: 3}}); return err },
	} {
		if err := write(); !errors.Is(err, ErrReadOnly) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func readAll(path string) {
	r, err := Open(path)
	if err != nil {
		return
	}
	defer r.Close()
	r.Meta()
	r.Cases()
	r.Samples("")
	r.Series()
	r.Failures()
	r.Done(PhaseSweep)
	r.Swept()
	r.Origins()
	r.NextSeq()
	r.State("status")
	r.EachWithOrigin(func(Sample, int64) error { return nil })
}

func TestMutatedRuns(t *testing.T) {
	whole, err := os.ReadFile(finishedRun(t))
	must(t, err)
	dir := t.TempDir()
	rapid.Check(t, func(t *rapid.T) {
		b := append([]byte(nil), whole...)
		for range rapid.IntRange(1, 40).Draw(t, "edits") {
			b[rapid.IntRange(0, len(b)-1).Draw(t, "at")] = rapid.Byte().Draw(t, "value")
		}
		if rapid.Bool().Draw(t, "cut") {
			b = b[:rapid.IntRange(0, len(b)).Draw(t, "length")]
		}
		path := filepath.Join(dir, "run.db")
		if err := os.WriteFile(path, b, 0o644); err != nil {
			t.Fatal(err)
		}
		readAll(path)
	})
}

func FuzzOpen(f *testing.F) {
	whole, err := os.ReadFile(finishedRun(f))
	must(f, err)
	f.Add(uint32(0), []byte("x"), uint32(0))
	f.Add(uint32(60), []byte{0, 0, 0, 9}, uint32(0))
	f.Add(uint32(4096), []byte{13, 0, 0, 0, 250, 0, 0}, uint32(8192))
	f.Fuzz(func(t *testing.T, at uint32, patch []byte, cut uint32) {
		b := append([]byte(nil), whole...)
		copy(b[int(at)%len(b):], patch)
		b = b[:len(b)-int(cut)%len(b)]
		path := filepath.Join(t.TempDir(), "run.db")
		must(t, os.WriteFile(path, b, 0o644))
		readAll(path)
	})
}
