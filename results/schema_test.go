package results

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// Schema1 returns a copy of a run written by the program's first version, and its content. This version can't
// write such a run.
func Schema1(t *testing.T) (path string, want content) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "run.db")
	must(t, copyFile(path, filepath.Join("testdata", "schema1.db")))
	text, err := os.ReadFile(filepath.Join("testdata", "schema1.json"))
	must(t, err)
	must(t, json.Unmarshal(text, &want))
	return path, want
}

func patch(t *testing.T, path string, statements ...string) {
	t.Helper()
	db, err := openDB(path, "mode=rw")
	must(t, err)
	defer db.Close()
	for _, q := range statements {
		_, err := db.Exec(q)
		must(t, err)
	}
}

var IgnoreOrigin = cmpopts.IgnoreFields(flatSample{}, "From")

func TestSchema1IsRead(t *testing.T) {
	path, want := Schema1(t)
	before, err := os.ReadFile(path)
	must(t, err)
	r, err := Open(path)
	must(t, err)
	defer r.Close()
	got := ContentOf(t, r)
	if d := cmp.Diff(want, got, IgnoreOrigin); d != "" {
		t.Errorf("(-first version +this one):\n%s", d)
	}
	if len(r.Warnings()) > 0 {
		t.Errorf("warnings %q", r.Warnings())
	}
	for _, s := range got.Samples {
		o := s.From
		wantCard := map[string]string{"cuda:0": "GPU-01234567-89ab-cdef-0123-456789abcdef"}[s.Case.Device]
		if o.Device != s.Case.Device || o.Host != "alpha" || len(o.Run) != 32 || o.Card != wantCard {
			t.Fatalf("%v comes from %+v", s.Sample, o)
		}
	}
	if after, err := os.ReadFile(path); err != nil || !bytes.Equal(before, after) {
		t.Errorf("reading changed the file (%v)", err)
	}
}

func TestSchema1IsAppendedTo(t *testing.T) {
	path, want := Schema1(t)
	old, err := Open(path)
	must(t, err)
	before := ContentOf(t, old)
	series, err := old.Series()
	must(t, err)
	must(t, old.Close())

	r, err := OpenAppend(path)
	must(t, err)
	if d := cmp.Diff(series, must1(r.Series())(t)); d != "" {
		t.Errorf("series (-before +after):\n%s", d)
	}
	cases, err := r.Cases()
	must(t, err)
	card := cases[slices.IndexFunc(cases, func(c Case) bool { return c.Device == "cuda:0" })]
	next, err := r.NextSeq()
	must(t, err)
	if err := r.Append(SomeSample(card, PhaseSweep, 0, next)); !errors.Is(err, ErrDuplicate) {
		t.Errorf("a round that is there: %v, expected ErrDuplicate", err)
	}
	more := SomeSample(card, PhaseSustained, 0, next)
	more.EnergyMJ, more.Allocation = 12.5, 2
	must(t, r.Append(more))
	must(t, r.SetReferenceClock("cuda:0", 1450))
	must(t, r.Close())

	r, err = Open(path)
	must(t, err)
	defer r.Close()
	got := ContentOf(t, r)
	want.Meta.Schema, want.Meta.ReferenceClock = SchemaVersion, map[string]float64{"cuda:0": 1450}
	card.ID, more.CaseID = 0, 0
	want.Samples = append(want.Samples, flatSample{Case: card, Sample: more})
	if d := cmp.Diff(want, got, IgnoreOrigin); d != "" {
		t.Errorf("(-first version and one sample +after):\n%s", d)
	}
	for i, s := range before.Samples {
		if !s.From.Same(got.Samples[i].From) {
			t.Fatalf("%v came from %+v and comes from %+v", s.Sample, s.From, got.Samples[i].From)
		}
	}
	last := got.Samples[len(got.Samples)-1].From
	if last.Card != "GPU-01234567-89ab-cdef-0123-456789abcdef" || last.Run != got.Samples[0].From.Run {
		t.Errorf("what was appended comes from %+v", last)
	}
	if entries, _ := os.ReadDir(filepath.Dir(path)); len(entries) != 1 {
		t.Errorf("files were left: %v", entries)
	}
}

func must1[T any](v T, err error) func(t testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		must(t, err)
		return v
	}
}

func TestMigratedSchemaIsThatOfANewRun(t *testing.T) {
	columns := func(path string) string {
		db, err := openDB(path, "mode=ro")
		must(t, err)
		defer db.Close()
		var out []string
		must(t, query(context.Background(), db, func(rows *sql.Rows) error {
			var table, column, kind string
			var required, key int
			err := rows.Scan(&table, &column, &kind, &required, &key)
			out = append(out, strings.Join([]string{table, column, kind}, " "))
			return err
		},
			`SELECT t.name, c.name, c.type, c."notnull", c.pk FROM sqlite_schema t, pragma_table_info(t.name) c WHERE t.type = 'table' `+
				`ORDER BY t.name, c.cid`))
		must(t, query(context.Background(), db, func(rows *sql.Rows) error {
			var table, to string
			err := rows.Scan(&table, &to)
			out = append(out, table+" refers to "+to)
			return err
		},
			`SELECT t.name, f."table" FROM sqlite_schema t, pragma_foreign_key_list(t.name) f WHERE t.type = 'table' ORDER BY t.name, `+
				`f."table"`))
		return strings.Join(out, "\n")
	}
	path, _ := Schema1(t)
	r, err := OpenAppend(path)
	must(t, err)
	must(t, r.Close())
	if d := cmp.Diff(columns(emptyRun(t)), columns(path)); d != "" {
		t.Errorf("(-new +migrated):\n%s", d)
	}
}

func TestFailedMigrationLeavesSchema1(t *testing.T) {
	path, _ := Schema1(t)
	patch(t, path, `UPDATE series SET dtype = 'fp7' WHERE id = 3`)
	before, err := os.ReadFile(path)
	must(t, err)
	if _, err := OpenAppend(path); err == nil || !strings.Contains(err.Error(), `dtype "fp7"`) {
		t.Fatalf("%v, expected that the type is refused", err)
	}
	r, err := Open(path)
	must(t, err)
	defer r.Close()
	if n := r.Meta().Schema; n != 1 {
		t.Errorf("schema %d", n)
	}
	if after, err := os.ReadFile(path); err != nil || !bytes.Equal(before, after) {
		t.Errorf("the failed migration changed the file (%v)", err)
	}
}

// A process killed while migrating must leave one of the two versions, with all content. Kills are timed
// around the migration, so some fall before and some after.
func TestKilledMigration(t *testing.T) {
	unmigrated, migrated := 0, 0
	after := time.Duration(0)
	for tries := 0; tries < 12 || migrated == 0; tries++ {
		path, want := Schema1(t)
		cmd, lines := startHelper(t, helperMigrate, path)
		if !lines.Scan() || lines.Text() != "begins" {
			t.Fatalf("the writer says %q", lines.Text())
		}
		time.Sleep(after)
		must(t, cmd.Process.Kill())
		cmd.Wait()
		r, err := Open(path)
		must(t, err)
		got := ContentOf(t, r)
		must(t, r.Close())
		switch got.Meta.Schema {
		case 1:
			unmigrated++
			after = max(after*2, 4*time.Millisecond)
		case SchemaVersion:
			migrated++
			after = after * 3 / 4
			want.Meta.Schema = SchemaVersion
		}
		if d := cmp.Diff(want, got, IgnoreOrigin); d != "" {
			t.Fatalf("(-before +after):\n%s", d)
		}
		r, err = OpenAppend(path)
		must(t, err)
		must(t, r.Close())
	}
	t.Logf("%d processes died before they had migrated, %d after", unmigrated, migrated)
	if unmigrated == 0 {
		t.Error("no process died before it had migrated")
	}
}

func TestUnknownIdentity(t *testing.T) {
	for _, tt := range []struct{ set, want string }{
		{`operation = 'fft'`, "operation fft is not known to this program"},
		{`layout = 'nkc'`, "layout nkc is not known to this program"},
		{`dims = '{"batch":8,"k":4096,"n":4096}'`, `set of dimensions {"batch":8,"k":4096,"n":4096} is not known to this program`},
		{`operands = replace(operands, '"group":null', '"group":{"k":128,"n":1}')`, `"group":{"k":128,"n":1}`},
		{`dims = '{"k":4096.5}'`, "the run is damaged"},
		{`operands = '[]'`, "the run is damaged"},
	} {
		path := emptyRun(t)
		patch(t, path, `UPDATE series SET `+tt.set)
		r, err := Open(path)
		must(t, err)
		_, err = r.Series()
		var f *FormatError
		if !errors.As(err, &f) || !strings.Contains(f.Reason, tt.want) {
			t.Errorf("%s: %v, expected a FormatError with %s", tt.set, err, tt.want)
		}
		must(t, r.Close())
	}
}

// A foreign run may have two samples in a round.
func TestTwoSamplesOfARound(t *testing.T) {
	path := finishedRun(t)
	patch(t, path, `UPDATE samples SET round = 3 WHERE case_id = 2 AND round = 4`)
	r, err := Open(path)
	must(t, err)
	defer r.Close()
	var f *FormatError
	if _, err := r.Series(); !errors.As(err, &f) || !strings.Contains(f.Reason, "of one round") {
		t.Errorf("%v, expected a FormatError", err)
	}
}

func TestValuesOfOtherTypes(t *testing.T) {
	for _, set := range []string{`us = 'fast'`, `phase = x'00'`, `round = -1`, `launches = 1.5`, `clock_mhz = 'no'`, `allocation = -1`,
		`utils = 'x'`} {
		path := finishedRun(t)
		patch(t, path, `UPDATE samples SET `+set+` WHERE seq = 7`)
		r, err := Open(path)
		must(t, err)
		var f *FormatError
		if _, err := r.Samples(""); !errors.As(err, &f) {
			t.Errorf("%s: %v, expected a FormatError", set, err)
		}
		must(t, r.Close())
	}
}

func TestReferenceClock(t *testing.T) {
	r, _ := NewRun(t, 4)
	for _, mhz := range []float64{0, -1} {
		if err := r.SetReferenceClock("cpu", mhz); err == nil {
			t.Errorf("%v MHz were accepted", mhz)
		}
	}
	must(t, r.SetReferenceClock("cpu", 2000))
	before := r.Meta()
	must(t, r.SetReferenceClock("cuda:0", 1450))
	want := map[string]float64{"cpu": 2000, "cuda:0": 1450}
	if d := cmp.Diff(want, r.Meta().ReferenceClock); d != "" {
		t.Error(d)
	}
	if len(before.ReferenceClock) != 1 {
		t.Errorf("what was handed out before became %v", before.ReferenceClock)
	}
	must(t, r.Close())
	o, err := Open(r.Path())
	must(t, err)
	defer o.Close()
	if d := cmp.Diff(want, o.Meta().ReferenceClock); d != "" {
		t.Error(d)
	}
}
