package results

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gemmaudit/gemmaudit/kernels"
)

// coverRun makes a run with a sample for each M of measured and a failure for each of failed.
func coverRun(t *testing.T, measured, failed []int) (*Run, PlannedSeries) {
	t.Helper()
	key := SeriesKey{Device: "cpu", Kernel: "tiled", Subject: kernels.Product(kernels.FP32, 64, 64), Regime: Engine}
	meta := Meta{Created: time.Now(), Regime: Engine,
		Fingerprint: Fingerprint{Hostname: "a", Devices: []kernels.Spec{{ID: "cpu", Name: "cpu"}}}}
	r, err := Create(filepath.Join(t.TempDir(), "run.db"), meta)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close() })
	planned := PlannedSeries{SeriesKey: key, Ms: Ms{8, 16, 24, 32}}
	var cases []Case
	for _, m := range planned.Ms {
		cases = append(cases, planned.Case(m))
	}
	if cases, err = r.AddCases(cases); err != nil {
		t.Fatal(err)
	}
	seq := int64(0)
	for _, c := range cases {
		for _, m := range measured {
			if c.M == m {
				if err := r.Append(Sample{CaseID: c.ID, Phase: PhaseSweep, Seq: seq, Launches: 1, US: 5}); err != nil {
					t.Fatal(err)
				}
				seq++
			}
		}
		for _, m := range failed {
			if c.M == m {
				if err := r.Fail(Failure{CaseID: c.ID, Phase: PhaseSweep, Round: 1, Reason: "no memory"}); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	return r, planned
}

func TestCoverage(t *testing.T) {
	r, planned := coverRun(t, []int{8, 16}, []int{16, 24})
	c, err := r.Coverage([]PlannedSeries{planned})
	if err != nil {
		t.Fatal(err)
	}
	if c.Asked != 4 || c.Held != 2 || c.Failed != 1 || c.Partly != 1 || c.Missing != 1 || len(c.Mixed) != 0 {
		t.Errorf("%+v", c)
	}
	if !strings.Contains(c.FirstFailed, "m24") || !strings.Contains(c.FirstPartly, "m16") || !strings.Contains(c.FirstMissing, "m32") {
		t.Errorf("%+v", c)
	}
	// An inferred series needs only some of its Ms; without any it is missing.
	planned.Infer = true
	if c, err = r.Coverage([]PlannedSeries{planned}); err != nil || c.Missing != 0 {
		t.Errorf("inferred: %+v, %v", c, err)
	}
	planned.Kernel = "other"
	if c, err = r.Coverage([]PlannedSeries{planned}); err != nil || c.Missing != 4 {
		t.Errorf("inferred and not begun: %+v, %v", c, err)
	}
}

// A run continued on another host must be reported, at once and after reopening.
func TestCoverageOfTwoHosts(t *testing.T) {
	r, planned := coverRun(t, []int{8, 16, 24, 32}, nil)
	if _, err := r.Coverage(nil); err != nil {
		t.Fatal(err)
	}
	here := r.Meta().Fingerprint
	here.Hostname = "b"
	r.MeasuredOn(here)
	cases, err := r.Cases()
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Append(Sample{CaseID: cases[0].ID, Phase: PhaseConfirm, Seq: 9, Launches: 1, US: 5}); err != nil {
		t.Fatal(err)
	}
	check := func(r *Run) {
		t.Helper()
		c, err := r.Coverage([]PlannedSeries{planned})
		if err != nil || len(c.Mixed) != 1 || c.Mixed[0].String() != "cpu: 4 samples of a, 1 of b" {
			t.Errorf("%+v, %v", c, err)
		}
	}
	check(r)
	path := r.Path()
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	again, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	check(again)
}

// Rows that refer to missing rows are damage.
func TestOrphansAreDamage(t *testing.T) {
	for name, statement := range map[string]string{
		"the case of a sample":   `DELETE FROM cases WHERE m = 16`,
		"the case of a failure":  `UPDATE failures SET case_id = 99`,
		"the origin of a sample": `UPDATE samples SET origin = 99 WHERE seq = 1`,
	} {
		r, _ := coverRun(t, []int{8, 16}, []int{24})
		path := r.Path()
		if err := r.Close(); err != nil {
			t.Fatal(err)
		}
		db, err := openDB(path, "mode=rw")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := db.ExecContext(context.Background(), statement); err != nil {
			t.Fatal(err)
		}
		db.Close()
		damaged, err := Open(path)
		if err != nil {
			t.Fatal(err)
		}
		_, err = damaged.Load()
		var format *FormatError
		if !errors.As(err, &format) || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := damaged.Swept(); err == nil {
			t.Errorf("%s: Swept counts it", name)
		}
		damaged.Close()
	}
}
