package results

import (
	"errors"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// OpenAppend must not change a refused file or leave files next to it.
func TestRefusedRunsStay(t *testing.T) {
	older, _ := Schema1(t)
	for name, run := range map[string]string{"version 1": older, "version 2": finishedRun(t)} {
		whole, err := os.ReadFile(run)
		must(t, err)
		path := filepath.Join(t.TempDir(), "run.db")
		t.Run(name, func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				b := append([]byte(nil), whole...)
				for range rapid.IntRange(1, 40).Draw(t, "edits") {
					b[rapid.IntRange(0, len(b)-1).Draw(t, "at")] = rapid.Byte().Draw(t, "value")
				}
				for _, suffix := range journals {
					os.Remove(path + suffix)
				}
				if err := os.WriteFile(path, b, 0o644); err != nil {
					t.Fatal(err)
				}
				r, err := OpenAppend(path)
				if err == nil {
					r.Close()
					return
				}
				after, readErr := os.ReadFile(path)
				if readErr != nil {
					t.Fatal(readErr)
				}
				if string(after) != string(b) {
					t.Fatalf("OpenAppend changed the file and then refused it: %v", err)
				}
				if beside, _ := filepath.Glob(path + "?*"); len(beside) > 0 {
					t.Fatalf("%q lie beside the refused run: %v", beside, err)
				}
			})
		})
	}
}

// A refused run's journal must not be folded.
func TestRefusedJournalStays(t *testing.T) {
	older, _ := Schema1(t)
	for name, tc := range map[string]struct{ run, sql, reason string }{
		"meta":         {finishedRun(t), `DELETE FROM meta WHERE key = 'command'`, "meta field command is missing"},
		"an older run": {older, `UPDATE series SET kernel = printf('%.*c', 5000, 'x')`, "a word of 5000 bytes"},
	} {
		t.Run(name, func(t *testing.T) {
			db, err := openDB(tc.run, "mode=rw", "journal_mode(WAL)")
			must(t, err)
			defer db.Close()
			_, err = db.Exec(tc.sql)
			must(t, err)
			path := filepath.Join(t.TempDir(), "run.db")
			for _, suffix := range []string{"", "-wal"} {
				must(t, copyFile(path+suffix, tc.run+suffix))
			}
			before := files(t, path)
			_, err = OpenAppend(path)
			var f *FormatError
			if !errors.As(err, &f) || !strings.Contains(f.Reason, tc.reason) {
				t.Errorf("%v, expected a FormatError with %q", err, tc.reason)
			}
			if after := files(t, path); !maps.Equal(before, after) {
				t.Error("the file or its journal has changed")
			}
		})
	}
}
