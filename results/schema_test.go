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

// schema1 is a copy of a run that the first version of the program wrote, and what that
// version read of it. Neither can be made anew by this version.
func schema1(t *testing.T) (path string, want content) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "run.db")
	must(t, copyFile(path, filepath.Join("testdata", "schema1.db")))
	text, err := os.ReadFile(filepath.Join("testdata", "schema1.json"))
	must(t, err)
	must(t, json.Unmarshal(text, &want))
	return path, want
}

// patch changes a run by SQL, as no version of the program would.
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

var ignoreOrigin = cmpopts.IgnoreFields(flatSample{}, "From")

func TestSchema1IsRead(t *testing.T) {
	path, want := schema1(t)
	before, err := os.ReadFile(path)
	must(t, err)
	r, err := Open(path)
	must(t, err)
	defer r.Close()
	got := contentOf(t, r)
	if d := cmp.Diff(want, got, ignoreOrigin); d != "" {
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
	var b bytes.Buffer
	must(t, Export(r, &b, FormatCSV))
	if n := bytes.Count(b.Bytes(), []byte("\n")); n != len(want.Samples)+1 {
		t.Errorf("%d lines exported, expected %d", n, len(want.Samples)+1)
	}
	if after, err := os.ReadFile(path); err != nil || !bytes.Equal(before, after) {
		t.Errorf("reading changed the file (%v)", err)
	}
}

func TestSchema1IsAppendedTo(t *testing.T) {
	path, want := schema1(t)
	old, err := Open(path)
	must(t, err)
	before := contentOf(t, old)
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
	if err := r.Append(testSample(card, PhaseSweep, 0, next)); !errors.Is(err, ErrDuplicate) {
		t.Errorf("a round that is there: %v, expected ErrDuplicate", err)
	}
	more := testSample(card, PhaseSustained, 0, next)
	more.EnergyMJ, more.Allocation = 12.5, 2
	must(t, r.Append(more))
	must(t, r.SetReferenceClock("cuda:0", 1450))
	must(t, r.Close())

	r, err = Open(path)
	must(t, err)
	defer r.Close()
	got := contentOf(t, r)
	want.Meta.Schema, want.Meta.ReferenceClock = SchemaVersion, map[string]float64{"cuda:0": 1450}
	card.ID, more.CaseID = 0, 0
	want.Samples = append(want.Samples, flatSample{Case: card, Sample: more})
	if d := cmp.Diff(want, got, ignoreOrigin); d != "" {
		t.Errorf("(-first version and one sample +after):\n%s", d)
	}
	for i, s := range before.Samples {
		if !s.From.same(got.Samples[i].From) {
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

// must1 is must for a function that returns a value.
func must1[T any](v T, err error) func(t testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		must(t, err)
		return v
	}
}

// The migrated tables are those of a new run.
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
		}, `SELECT t.name, c.name, c.type, c."notnull", c.pk FROM sqlite_schema t, pragma_table_info(t.name) c WHERE t.type = 'table' ORDER BY t.name, c.cid`))
		must(t, query(context.Background(), db, func(rows *sql.Rows) error {
			var table, to string
			err := rows.Scan(&table, &to)
			out = append(out, table+" refers to "+to)
			return err
		}, `SELECT t.name, f."table" FROM sqlite_schema t, pragma_foreign_key_list(t.name) f WHERE t.type = 'table' ORDER BY t.name, f."table"`))
		return strings.Join(out, "\n")
	}
	path, _ := schema1(t)
	r, err := OpenAppend(path)
	must(t, err)
	must(t, r.Close())
	if d := cmp.Diff(columns(emptyRun(t)), columns(path)); d != "" {
		t.Errorf("(-new +migrated):\n%s", d)
	}
}

func TestFailedMigrationLeavesSchema1(t *testing.T) {
	path, _ := schema1(t)
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

// A process that dies while it migrates leaves a run of the one version or the other,
// with all that it held. The moment of death is sought around that of the migration,
// so some die before it and some after, however fast the machine is.
func TestKilledMigration(t *testing.T) {
	unmigrated, migrated := 0, 0
	after := time.Duration(0)
	for tries := 0; tries < 12 || migrated == 0; tries++ {
		path, want := schema1(t)
		cmd, lines := startHelper(t, helperMigrate, path)
		if !lines.Scan() || lines.Text() != "begins" {
			t.Fatalf("the writer says %q", lines.Text())
		}
		time.Sleep(after)
		must(t, cmd.Process.Kill())
		cmd.Wait()
		r, err := Open(path)
		must(t, err)
		got := contentOf(t, r)
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
		if d := cmp.Diff(want, got, ignoreOrigin); d != "" {
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

func TestMergeOfSchemas(t *testing.T) {
	first, want := schema1(t)
	second, _ := schema1(t)
	r, err := OpenAppend(second)
	must(t, err)
	must(t, r.Close())
	r, err = Merge(context.Background(), filepath.Join(t.TempDir(), "merged.db"), []string{first, second}, MergeOptions{})
	must(t, err)
	defer r.Close()
	got := contentOf(t, r)
	want.Meta.Schema, want.Meta.Plan = SchemaVersion, got.Meta.Plan
	if d := cmp.Diff(want, got, ignoreOrigin); d != "" {
		t.Errorf("(-one +both):\n%s", d)
	}
	if origins, err := r.Origins(); err != nil || len(origins) != 2 {
		t.Errorf("origins %+v, %v; expected one per device", origins, err)
	}
}

// What this version does not know is refused by its name.
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

// A run from elsewhere may hold two samples of a round, which no run of ours does.
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

// A value of another type than the column's is damage, and not a zero.
func TestValuesOfOtherTypes(t *testing.T) {
	for _, set := range []string{`us = 'fast'`, `phase = x'00'`, `round = -1`, `launches = 1.5`, `clock_mhz = 'no'`, `allocation = -1`, `utils = 'x'`} {
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
	r, _ := newRun(t, 4)
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

// Where samples come from travels through CSV and merges.
func TestOriginsTravel(t *testing.T) {
	const rows = `device,kernel,dtype,m,n,k,round,us,run,host,card,labels
cuda:0,lib,bf16,8,8,16,0,1.5,aa,alpha,GPU-1,"{""rack"":""7"",""row"":""b""}"
cuda:0,lib,bf16,8,8,16,1,1.5,bb,beta,GPU-2,
cuda:0,lib,bf16,8,8,16,2,1.5,aa,alpha,GPU-1,"{""rack"":""7"",""row"":""b""}"
`
	want := []Origin{
		{ID: 1, Run: "aa", Host: "alpha", Device: "cuda:0", Card: "GPU-1", Labels: map[string]string{"rack": "7", "row": "b"}},
		{ID: 2, Run: "bb", Host: "beta", Device: "cuda:0", Card: "GPU-2"},
	}
	r, err := Import(t.Context(), []string{writeFile(t, "rows.csv", rows)}, filepath.Join(t.TempDir(), "run.db"), ImportOptions{})
	must(t, err)
	defer r.Close()
	if d := cmp.Diff(want, must1(r.Origins())(t)); d != "" {
		t.Errorf("imported:\n%s", d)
	}
	merged, err := Merge(t.Context(), filepath.Join(t.TempDir(), "merged.db"), []string{r.Path()}, MergeOptions{})
	must(t, err)
	defer merged.Close()
	if d := cmp.Diff(want, must1(merged.Origins())(t)); d != "" {
		t.Errorf("merged:\n%s", d)
	}
	var b bytes.Buffer
	must(t, Export(merged, &b, FormatCSV))
	for i, line := range strings.Split(strings.TrimSpace(b.String()), "\n")[1:] {
		if end := strings.Split(rows, "\n")[i+1][len("cuda:0,lib,bf16,8,8,16,0,1.5,"):]; !strings.HasSuffix(line, ","+end+",gemm,kn,,,,cuda:0,,,") {
			t.Errorf("line %d is %s, expected it to end in %s", i, line, end)
		}
	}
	_, err = Import(t.Context(), []string{writeFile(t, "bad.csv", strings.Replace(rows, `"{""rack"":""7""`, `"{""rack"":7`, 1))}, filepath.Join(t.TempDir(), "bad.db"), ImportOptions{})
	var cell *ImportError
	if !errors.As(err, &cell) || cell.Column != "labels" {
		t.Errorf("%v, expected labels to be refused", err)
	}
}
