package results

import (
	"bytes"
	"encoding/binary"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// refused requires that opening a run for reading and for appending fails with this reason and changes no
// file.
func refused(t *testing.T, path, reason string) {
	t.Helper()
	before := files(t, path)
	for name, open := range map[string]func(string) (*Run, error){"Open": Open, "OpenAppend": OpenAppend} {
		r, err := open(path)
		if err == nil {
			r.Close()
		}
		var f *FormatError
		if !errors.As(err, &f) || !strings.Contains(f.Reason, reason) || f.Hint == "" {
			t.Errorf("%s: %v, expected a FormatError with a hint and %q", name, err, reason)
		}
	}
	if after := files(t, path); !maps.Equal(before, after) {
		t.Errorf("the files %q have changed, and are %q", slices.Sorted(maps.Keys(before)), slices.Sorted(maps.Keys(after)))
	}
}

// files reads the files in a run's folder, except the database's journal index, which is rebuilt at each
// opening.
func files(t testing.TB, run string) map[string]string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(filepath.Dir(run), "*"))
	must(t, err)
	out := map[string]string{}
	for _, path := range found {
		if strings.HasSuffix(path, "-shm") {
			continue
		}
		b, err := os.ReadFile(path)
		must(t, err)
		out[filepath.Base(path)] = string(b)
	}
	return out
}

// Foreign triggers and views would change what is read or written.
func TestForeignSchema(t *testing.T) {
	whole, err := os.ReadFile(finishedRun(t))
	must(t, err)
	for _, tt := range []struct {
		name   string
		sql    []string
		reason string
	}{
		{"trigger", []string{`CREATE TRIGGER empties AFTER INSERT ON samples BEGIN DELETE FROM samples; END`},
			`the trigger "empties"`},
		{"view", []string{`DROP TABLE failures`,
			`CREATE VIEW failures AS SELECT 1 AS case_id, 'sweep' AS phase, 0 AS round, printf('%.*c', 1e9, 'x') AS reason`},
			`the view "failures"`},
		{"generated column", []string{`ALTER TABLE cases RENAME COLUMN label TO told`,
			`ALTER TABLE cases ADD COLUMN label TEXT AS (printf('%.*c', 4e8, 'x'))`},
			`table cases is declared otherwise than a run's`},
		{"column", []string{`ALTER TABLE samples ADD COLUMN more TEXT`}, `table samples is declared otherwise`},
		{"check", []string{`DROP TABLE state`,
			`CREATE TABLE state (key TEXT PRIMARY KEY, value TEXT NOT NULL CHECK (length(printf('%.*c', 4e8, value)) > 0)) WITHOUT ROWID`},
			`table state is declared otherwise`},
		{"table", []string{`CREATE TABLE more (x)`}, `the table "more"`},
		{"virtual table", []string{`CREATE VIRTUAL TABLE found USING fts5(x)`}, `the table "found"`},
		{"index", []string{`CREATE INDEX by_label ON cases (printf('%.*c', length(label), 'x'))`}, `the index "by_label"`},
		{"missing", []string{`DROP TABLE failures`}, `table failures is missing`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "run.db")
			must(t, os.WriteFile(path, whole, 0o644))
			patch(t, path, tt.sql...)
			refused(t, path, tt.reason)
		})
	}
	t.Run("version 1", func(t *testing.T) {
		path, _ := Schema1(t)
		patch(t, path, `CREATE TRIGGER empties AFTER INSERT ON samples BEGIN DELETE FROM samples; END`)
		refused(t, path, `the trigger "empties"`)
	})
}

// A run file must obey the limits of a CSV.
func TestValuesOutOfBounds(t *testing.T) {
	whole, err := os.ReadFile(finishedRun(t))
	must(t, err)
	for _, tt := range []struct {
		name, sql, reason string
	}{
		{"long label", `UPDATE cases SET label = printf('%.*c', 5000, 'x') WHERE id = 2`, "a word of 5000 bytes, expected at most 4096"},
		{"long phase", `UPDATE samples SET phase = printf('%.*c', 5000, 'x') WHERE seq = 3`, "a word of 5000 bytes"},
		{"long kernel", `UPDATE series SET kernel = printf('%.*c', 5000, 'x')`, "a word of 5000 bytes"},
		{"large M", `UPDATE cases SET m = 1 << 40 WHERE id = 2`, "M 1099511627776, expected at most 2147483648"},
		{"large dimension", `UPDATE series SET dims = '{"k":1099511627776,"n":1}'`, "expected at most 2147483648"},
		{"many launches", `UPDATE samples SET launches = 1 << 40 WHERE seq = 3`, "launches is 1099511627776"},
		{"infinite time", `UPDATE samples SET us = 9e999 WHERE seq = 3`, "us is +Inf"},
		{"endless time", `UPDATE samples SET us = 1e300 WHERE seq = 3`, "us is 1e+300"},
		{"infinite clock", `UPDATE samples SET clock_mhz = 9e999 WHERE seq = 3`, "clock_mhz is +Inf"},
		{"negative power", `UPDATE samples SET power_w = -1 WHERE seq = 3`, "power_w is -1"},
		{"infinite energy", `UPDATE samples SET energy_mj = 9e999 WHERE seq = 3`, "energy_mj is +Inf"},
		{"infinite host time", `CREATE TABLE host_times ( seq INTEGER PRIMARY KEY, host_us REAL NOT NULL );
			INSERT INTO host_times VALUES (3, 9e999)`, "host_us is +Inf"},
		{"failure of no round", `UPDATE failures SET round = -1`, "round -1"},
		{"peak", `UPDATE meta SET value = '{"cpu":{"peaks":[{"dtype":"fp32","flops":-1}]}}' WHERE key = 'ceilings'`, "flops is -1"},
		{"bandwidth", `UPDATE meta SET value = '{"cpu":{"read_bandwidth":1e300}}' WHERE key = 'ceilings'`, "read_bandwidth is 1e+300"},
		{"reference clock", `UPDATE meta SET value = '{"cpu":1e300}' WHERE key = 'reference_clock'`, "1e+300 MHz"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "run.db")
			must(t, os.WriteFile(path, whole, 0o644))
			patch(t, path, tt.sql)
			err := readEverything(path)
			var f *FormatError
			if !errors.As(err, &f) || !strings.Contains(f.Reason, tt.reason) {
				t.Errorf("%v, expected a FormatError with %q", err, tt.reason)
			}
		})
	}
}

func readEverything(path string) error {
	r, err := Open(path)
	if err != nil {
		return err
	}
	defer r.Close()
	_, err = r.Samples("")
	if err == nil {
		_, err = r.Failures()
	}
	if err == nil {
		_, err = r.Load()
	}
	return err
}

// Pages that refer to one page many times make a huge table in a small file. Reading it must end.
func TestPagesThatMeetAgain(t *testing.T) {
	for _, table := range []string{"cases", "samples", "series", "origins"} {
		t.Run(table, func(t *testing.T) {
			path := finishedRun(t)
			fanOut(t, path, table)
			r, err := Open(path)
			must(t, err)
			defer r.Close()
			reads := map[string]func() error{
				"samples": func() error { _, err := r.Samples(""); return err },
				"cases":   func() error { _, err := r.Cases(); return err },
				"load":    func() error { _, err := r.Load(); return err },
				"done":    func() error { _, err := r.Done(PhaseSweep); return err },
				"origins": func() error { _, err := r.Origins(); return err },
			}
			for _, name := range map[string][]string{"cases": {"cases", "load"}, "samples": {"samples", "load", "done"},
				"series": {"cases"}, "origins": {"origins"}}[table] {
				err := reads[name]()
				var f *FormatError
				if !errors.As(err, &f) || !strings.Contains(f.Reason, "the file has") {
					t.Errorf("%s: %v, expected a FormatError", name, err)
				}
			}
		})
	}
}

// fanOut puts interior pages before a table, each with many links to the next.
func fanOut(t *testing.T, path, table string) {
	t.Helper()
	const page, children, depth = 4096, 200, 8
	db, err := openDB(path, "mode=ro")
	must(t, err)
	var root int
	must(t, db.QueryRow(`SELECT rootpage FROM sqlite_schema WHERE name = ?`, table).Scan(&root))
	must(t, db.Close())
	b, err := os.ReadFile(path)
	must(t, err)
	first := len(b)/page + 1
	old := bytes.Clone(b[(root-1)*page : root*page])
	copy(b[(root-1)*page:], interior(page, children, first))
	for i := range depth {
		b = append(b, interior(page, children, first+i+1)...)
	}
	b = append(b, old...)
	binary.BigEndian.PutUint32(b[28:], uint32(len(b)/page))
	must(t, os.WriteFile(path, b, 0o644))
}

func interior(size, children, to int) []byte {
	p := make([]byte, size)
	p[0] = 5
	binary.BigEndian.PutUint16(p[3:], uint16(children))
	binary.BigEndian.PutUint32(p[8:], uint32(to))
	at := size
	for i := range children {
		at -= 5
		binary.BigEndian.PutUint32(p[at:], uint32(to))
		p[at+4] = byte(i % 128)
		binary.BigEndian.PutUint16(p[12+2*i:], uint16(at))
	}
	binary.BigEndian.PutUint16(p[5:], uint16(at))
	return p
}

// Every Meta field is required.
func TestMissingMeta(t *testing.T) {
	whole, err := os.ReadFile(finishedRun(t))
	must(t, err)
	for _, key := range []string{"created", "command", "gemmaudit", "fingerprint", "ceilings", "plan", "regime", "distribution", "seed",
		"source", "reference_clock", "run"} {
		t.Run(key, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "run.db")
			must(t, os.WriteFile(path, whole, 0o644))
			patch(t, path, `DELETE FROM meta WHERE key = '`+key+`'`)
			refused(t, path, "meta field "+key+" is missing")
		})
	}
}
