package results

import (
	"bytes"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gemmaudit/gemmaudit/kernels"
)

func TestParseLabels(t *testing.T) {
	many := make([]string, MostLabels+1)
	for i := range many {
		many[i] = fmt.Sprintf("k%d=v", i)
	}
	for _, c := range []struct {
		given []string
		want  Labels
		err   string
	}{
		{given: nil},
		{given: []string{"rack=7", "topology.kubernetes.io/zone=eu-1a"}, want: Labels{"rack": "7", "topology.kubernetes.io/zone": "eu-1a"}},
		{given: []string{"note=a = b, and größer"}, want: Labels{"note": "a = b, and größer"}},
		{given: many[1:], want: func() Labels {
			l := Labels{}
			for _, s := range many[1:] {
				l[strings.TrimSuffix(s, "=v")] = "v"
			}
			return l
		}()},
		{given: []string{"rack"}, err: `label "rack": there is no =`},
		{given: []string{""}, err: "there is no ="},
		{given: []string{"=7"}, err: "without a key"},
		{given: []string{"rack="}, err: "label rack has no value"},
		{given: []string{"Rack=7"}, err: `label "Rack": expected a key of a to z`},
		{given: []string{"ra ck=7"}, err: `expected a key of`},
		{given: []string{"räck=7"}, err: `expected a key of`},
		{given: []string{strings.Repeat("k", 64) + "=7"}, err: "the key has 64 bytes, expected at most 63"},
		{given: []string{"rack=" + strings.Repeat("v", 256)}, err: "the value has 256 bytes, expected at most 255"},
		{given: []string{"rack=7\n8"}, err: "expected printable text of one line"},
		{given: []string{"rack=\x1b[2J"}, err: "expected printable text"},
		{given: []string{"rack=\xff"}, err: "expected printable text"},
		{given: []string{"rack=7", "rack=8"}, err: `label rack is given twice, as "7" and "8"`},
		{given: many, err: "65 labels, expected at most 64"},
	} {
		got, err := ParseLabels(c.given)
		if c.err != "" {
			if err == nil || !strings.Contains(err.Error(), c.err) {
				t.Errorf("%.80q: %v, expected %q", c.given, err, c.err)
			}
			continue
		}
		if d := cmp.Diff(c.want, got); err != nil || d != "" {
			t.Errorf("%q: %v (-want +got):\n%s", c.given, err, d)
		}
	}
	if s := (Labels{"row": "b", "rack": "7"}).String(); s != "rack=7, row=b" {
		t.Errorf("labels are printed as %q", s)
	}
}

// TestLabelsOfRun: a run keeps its labels and its id over reopening, and each of its origins has the labels.
func TestLabelsOfRun(t *testing.T) {
	r, cases := newRun(t, 4)
	id := r.ID()
	if len(id) != 32 {
		t.Errorf("the id is %q, expected 32 hexadecimal digits", id)
	}
	must(t, r.Append(testSample(cases[0], PhaseSweep, 0, 0)))
	must(t, r.Close())
	again := must1(OpenAppend(r.Path()))(t)
	if again.ID() != id {
		t.Errorf("the id is %s after reopening, it was %s", again.ID(), id)
	}
	must(t, again.Append(testSample(cases[0], PhaseSweep, 1, 1)))
	for _, o := range must1(again.Origins())(t) {
		if d := cmp.Diff(Labels{"rack": "7"}, o.Labels); d != "" || o.Run != id {
			t.Errorf("origin %+v of run %s", o, id)
		}
	}
	// Runs of before there were labels lack the field.
	_, err := again.db.Exec(`DELETE FROM meta WHERE key = 'labels'`)
	must(t, err)
	must(t, again.Close())
	without := must1(Open(r.Path()))(t)
	defer without.Close()
	if l := without.Meta().Labels; l != nil {
		t.Errorf("labels %v of a run without", l)
	}
}

// TestOriginsOfAnotherMachine: samples of a run that goes on elsewhere come from there.
func TestOriginsOfAnotherMachine(t *testing.T) {
	r, cases := newRun(t, 4)
	must(t, r.Append(testSample(cases[0], PhaseSweep, 0, 0)))
	there := testMeta().Fingerprint
	r.MeasuredOn(there) // the same
	must(t, r.Append(testSample(cases[0], PhaseSweep, 1, 1)))
	there.Hostname = "beta"
	there.Devices = []kernels.Spec{{ID: "cpu", UUID: "serial-2"}}
	r.MeasuredOn(there)
	must(t, r.Append(testSample(cases[0], PhaseSweep, 2, 2)))
	there.Hostname = "gamma" // the same card in another container
	r.MeasuredOn(there)
	must(t, r.Append(testSample(cases[0], PhaseSweep, 3, 3)))
	r.MeasuredOn(testMeta().Fingerprint)
	must(t, r.Append(testSample(cases[0], PhaseSweep, 4, 4)))
	id, labels := r.ID(), Labels{"rack": "7"}
	want := []Origin{{ID: 1, Run: id, Host: "alpha", Device: "cpu", Labels: labels}, {ID: 2, Run: id, Host: "beta", Device: "cpu", Card: "serial-2", Labels: labels}}
	if d := cmp.Diff(want, must1(r.Origins())(t)); d != "" {
		t.Error(d)
	}
	var b bytes.Buffer
	must(t, Export(r, &b, FormatCSV))
	for i, host := range []string{"alpha", "alpha", "beta", "beta", "alpha"} {
		if line := strings.Split(b.String(), "\n")[i+1]; !strings.Contains(line, ","+id+","+host+",") {
			t.Errorf("line %d is %s, expected host %s", i, line, host)
		}
	}
	if host := r.Meta().Fingerprint.Hostname; host != "alpha" {
		t.Errorf("the run's own machine is %s", host)
	}
}

func TestDamagedLabels(t *testing.T) {
	for _, value := range []string{`{"rack":7}`, `{"RACK":"7"}`, `{"rack":"\u001b"}`, `[`, `{"rack":""}`} {
		r, _ := newRun(t, 4)
		_, err := r.db.Exec(`UPDATE meta SET value = ? WHERE key = 'labels'`, value)
		must(t, err)
		must(t, r.Close())
		_, err = Open(r.Path())
		var format *FormatError
		if !errors.As(err, &format) || !strings.Contains(err.Error(), "meta field labels") {
			t.Errorf("labels %s: %v", value, err)
		}
	}
	if _, err := Create(filepath.Join(t.TempDir(), "run.db"), Meta{Labels: Labels{"Rack": "7"}}); err == nil || !strings.Contains(err.Error(), `label "Rack"`) {
		t.Errorf("%v, expected labels to be refused", err)
	}
}

// TestMergeLabels: labels on which runs agree stay, the others are named.
func TestMergeLabels(t *testing.T) {
	run := func(name string, m int, l Labels) string {
		meta := testMeta()
		meta.Labels = l
		r := must1(Create(filepath.Join(t.TempDir(), name), meta))(t)
		cases := must1(r.AddCases([]Case{{SeriesKey: testKey, M: m}}))(t)
		must(t, r.Append(testSample(cases[0], PhaseSweep, 0, int64(m))))
		must(t, r.Close())
		return r.Path()
	}
	merged, err := Merge(t.Context(), filepath.Join(t.TempDir(), "all.db"), []string{
		run("a.db", 4, Labels{"rack": "7", "site": "eu", "odd": "1"}), run("b.db", 8, Labels{"rack": "8", "site": "eu"}),
	}, MergeOptions{})
	must(t, err)
	defer merged.Close()
	if d := cmp.Diff(Labels{"site": "eu"}, merged.Meta().Labels); d != "" {
		t.Error(d)
	}
	want := []string{`the runs differ in label odd: "1", none; each sample keeps its own`, `the runs differ in label rack: "7", "8"; each sample keeps its own`}
	if d := cmp.Diff(want, merged.Warnings()); d != "" {
		t.Error(d)
	}
	var racks []string
	for _, o := range must1(merged.Origins())(t) {
		racks = append(racks, o.Labels["rack"])
	}
	if d := cmp.Diff([]string{"7", "8"}, racks); d != "" {
		t.Error(d)
	}
}

// TestImportLabels: the labels of an import are those of lines that have none, and what all lines say is the run's.
func TestImportLabels(t *testing.T) {
	const lines = "device,kernel,dtype,m,n,k,round,us,host,card,device_name,labels,started,reference_clock_mhz\n" +
		`cuda:0,lib,bf16,8,8,16,0,1.5,alpha,GPU-1,NVIDIA H200,"{""rack"":""7"",""site"":""eu""}",2026-01-02T03:04:05.000006Z,1500` + "\n" +
		`cuda:0,lib,bf16,8,8,16,1,1.5,alpha,GPU-1,NVIDIA H200,,2026-01-02T04:04:05+01:00,1500` + "\n"
	r := must1(Import(t.Context(), []string{writeFile(t, "a.csv", lines)}, filepath.Join(t.TempDir(), "a.db"), ImportOptions{Labels: Labels{"site": "eu"}}))(t)
	defer r.Close()
	meta := r.Meta()
	if d := cmp.Diff(Labels{"site": "eu"}, meta.Labels); d != "" {
		t.Error(d)
	}
	spec := meta.Fingerprint.Devices[0]
	if meta.Fingerprint.Hostname != "alpha" || spec.ID != "cuda:0" || spec.Name != "NVIDIA H200" || spec.UUID != "GPU-1" || meta.ReferenceClock["cuda:0"] != 1500 {
		t.Errorf("the machine is %+v, clocks %v", meta.Fingerprint, meta.ReferenceClock)
	}
	var at []int64
	for _, s := range must1(r.Samples(""))(t) {
		at = append(at, s.StartedUnixMicro)
	}
	if d := cmp.Diff([]int64{1767323045000006, 1767323045000000}, at); d != "" {
		t.Error(d)
	}
	if len(r.Warnings()) > 0 {
		t.Errorf("warnings %q", r.Warnings())
	}
	for _, bad := range []struct{ column, lines string }{
		{"started", strings.Replace(lines, "2026-01-02T03:04:05.000006Z", "yesterday", 1)},
		{"started", strings.Replace(lines, "2026-01-02T03:04:05.000006Z", "1926-01-02T03:04:05Z", 1)},
		{"reference_clock_mhz", strings.Replace(lines, ",1500", ",-1", 1)},
		{"labels", strings.Replace(lines, `""rack""`, `""RACK""`, 1)},
	} {
		_, err := Import(t.Context(), []string{writeFile(t, "bad.csv", bad.lines)}, filepath.Join(t.TempDir(), "bad.db"), ImportOptions{})
		var cell *ImportError
		if !errors.As(err, &cell) || cell.Column != bad.column || cell.Line != 2 {
			t.Errorf("%v, expected column %s of line 2", err, bad.column)
		}
	}
}
