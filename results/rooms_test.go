package results_test

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/results"
	"github.com/gemmaudit/gemmaudit/results/export"
	"github.com/gemmaudit/gemmaudit/results/importing"
	"github.com/gemmaudit/gemmaudit/results/merge"
)

func TestMergeChoices(t *testing.T) {
	a, b := results.LaunchKind{Label: "a"}, results.LaunchKind{Label: "b"}
	other := results.SomeKey
	other.Kernel = "amx"
	var paths []string
	for i, c := range []map[results.SeriesKey]results.Choices{{results.SomeKey: {{4, 8, a}, {12, 12, b}}},
		{results.SomeKey: {{4, 8, a}, {12, 12, b}}, other: {{4, 64, b}}}, {results.SomeKey: {{4, 12, a}}}} {
		path := shard(t, nil, func(s *results.Sample) { s.Round = i })
		r, err := results.OpenAppend(path)
		must(t, err)
		for key, c := range c {
			must(t, r.SetChoices(key, c))
		}
		must(t, r.Close())
		paths = append(paths, path)
	}
	m, err := merge.Runs(context.Background(), filepath.Join(t.TempDir(), "merged.db"), paths, merge.Options{})
	must(t, err)
	defer m.Close()
	want := map[results.SeriesKey]results.Choices{results.SomeKey: {{4, 8, a}, {12, 12, b}}, other: {{4, 64, b}}}
	if d := cmp.Diff(want, must1(m.Choices())(t)); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	if w := m.Warnings(); len(w) != 1 || !strings.Contains(w[0], paths[2]+": other choices for 1 series") {
		t.Errorf("warnings %q", w)
	}
}

func TestMergeLabels(t *testing.T) {
	run := func(name string, m int, l results.Labels) string {
		meta := results.SomeMeta()
		meta.Labels = l
		r := must1(results.Create(filepath.Join(t.TempDir(), name), meta))(t)
		cases := must1(r.AddCases([]results.Case{{SeriesKey: results.SomeKey, M: m}}))(t)
		must(t, r.Append(results.SomeSample(cases[0], results.PhaseSweep, 0, int64(m))))
		must(t, r.Close())
		return r.Path()
	}
	merged, err := merge.Runs(t.Context(), filepath.Join(t.TempDir(), "all.db"), []string{
		run("a.db", 4, results.Labels{"rack": "7", "site": "eu", "odd": "1"}), run("b.db", 8, results.Labels{"rack": "8", "site": "eu"}),
	}, merge.Options{})
	must(t, err)
	defer merged.Close()
	if d := cmp.Diff(results.Labels{"site": "eu"}, merged.Meta().Labels); d != "" {
		t.Error(d)
	}
	want := []string{`the runs differ in label odd: "1", none; each sample keeps its own`,
		`the runs differ in label rack: "7", "8"; each sample keeps its own`}
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

func TestImportLabels(t *testing.T) {
	const lines = "device,kernel,dtype,m,n,k,round,us,host,card,device_name,labels,started,reference_clock_mhz\n" +
		`cuda:0,lib,bf16,8,8,16,0,1.5,alpha,GPU-1,NVIDIA H200,"{""rack"":""7"",""site"":""eu""}",2026-01-02T03:04:05.000006Z,1500` + "\n" +
		`cuda:0,lib,bf16,8,8,16,1,1.5,alpha,GPU-1,NVIDIA H200,,2026-01-02T04:04:05+01:00,1500` + "\n"
	r := must1(importing.Import(t.Context(), []string{writeFile(t, "a.csv", lines)}, filepath.Join(t.TempDir(), "a.db"),
		importing.Options{Labels: results.Labels{"site": "eu"}}))(t)
	defer r.Close()
	meta := r.Meta()
	if d := cmp.Diff(results.Labels{"site": "eu"}, meta.Labels); d != "" {
		t.Error(d)
	}
	spec := meta.Fingerprint.Devices[0]
	if meta.Fingerprint.Hostname != "alpha" || spec.ID != "cuda:0" || spec.Name != "NVIDIA H200" || spec.UUID != "GPU-1" ||
		meta.ReferenceClock["cuda:0"] != 1500 {
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
		_, err := importing.Import(t.Context(), []string{writeFile(t, "bad.csv", bad.lines)}, filepath.Join(t.TempDir(), "bad.db"),
			importing.Options{})
		var cell *importing.Error
		if !errors.As(err, &cell) || cell.Column != bad.column || cell.Line != 2 {
			t.Errorf("%v, expected column %s of line 2", err, bad.column)
		}
	}
}

func TestOriginsOfAnotherMachine(t *testing.T) {
	r, cases := results.NewRun(t, 4)
	must(t, r.Append(results.SomeSample(cases[0], results.PhaseSweep, 0, 0)))
	there := results.SomeMeta().Fingerprint
	r.MeasuredOn(there) // the same
	must(t, r.Append(results.SomeSample(cases[0], results.PhaseSweep, 1, 1)))
	there.Hostname = "beta"
	there.Devices = []kernels.Spec{{ID: "cpu", UUID: "serial-2"}}
	r.MeasuredOn(there)
	must(t, r.Append(results.SomeSample(cases[0], results.PhaseSweep, 2, 2)))
	there.Hostname = "gamma" // the same card in another container
	r.MeasuredOn(there)
	must(t, r.Append(results.SomeSample(cases[0], results.PhaseSweep, 3, 3)))
	r.MeasuredOn(results.SomeMeta().Fingerprint)
	must(t, r.Append(results.SomeSample(cases[0], results.PhaseSweep, 4, 4)))
	id, labels := r.ID(), results.Labels{"rack": "7"}
	want := []results.Origin{{ID: 1, Run: id, Host: "alpha", Device: "cpu", Labels: labels},
		{ID: 2, Run: id, Host: "beta", Device: "cpu", Card: "serial-2", Labels: labels}}
	if d := cmp.Diff(want, must1(r.Origins())(t)); d != "" {
		t.Error(d)
	}
	var b bytes.Buffer
	must(t, export.Write(r, &b, export.FormatCSV, export.Samples{}))
	for i, host := range []string{"alpha", "alpha", "beta", "beta", "alpha"} {
		if line := strings.Split(b.String(), "\n")[i+1]; !strings.Contains(line, ","+id+","+host+",") {
			t.Errorf("line %d is %s, expected host %s", i, line, host)
		}
	}
	if host := r.Meta().Fingerprint.Hostname; host != "alpha" {
		t.Errorf("the run's own machine is %s", host)
	}
}

// Columns take precedence over labels, and labels may come with a later line.
func TestImportLaunchesOfLabels(t *testing.T) {
	head := "device,kernel,dtype,m,n,k,round,us,label,tile_m,tile_n,tile_k,waves,split\n"
	lines := "cpu,tiled,fp32,64,128,256,0,10,,,,,,\n" +
		"cpu,tiled,fp32,64,128,256,1,10," + results.Algorithm + ",,,,,\n" +
		"cpu,tiled,fp32,65,128,256,0,10,ampere_64x128_nn,,,,,2\n" +
		"cpu,tiled,fp32,66,128,256,0,10,ampere_64x128_nn,16,32,8,1.5,1\n" +
		"cpu,tiled,fp32,67,128,256,0,10,gemv,,,,,\n"
	out := filepath.Join(t.TempDir(), "run.db")
	r, err := importing.Import(context.Background(), []string{writeFile(t, "samples.csv", head+lines)}, out, importing.Options{})
	must(t, err)
	results.Holds(t, "imported", r.Run, results.Launched(64))
	must(t, r.Close())

	// SQL queries must find them as columns.
	db, err := sql.Open("sqlite", out)
	must(t, err)
	defer db.Close()
	var got results.Case
	must(t, db.QueryRow(`SELECT label, tile_m, tile_n, waves, split, orientation FROM cases WHERE m = 64`).
		Scan(&got.Label, &got.Launch.Tile[0], &got.Launch.Tile[1], &got.Launch.Waves, &got.Launch.Split, &got.Launch.Orientation))
	want := results.Launched(64)[0]
	if d := cmp.Diff(results.Case{Label: want.Label, Launch: want.Launch}, got); d != "" {
		t.Errorf("(-want +stored):\n%s", d)
	}
}

// The first of a case's lines with a launch counts.
func TestImportLaterLaunches(t *testing.T) {
	head := "device,kernel,dtype,m,n,k,round,us,label,tile_m,tile_n,tile_k,waves,split\n"
	at := func(m int, label string, l results.Launch) results.Case {
		return results.Case{SeriesKey: results.SomeKey, M: m, Label: label, Launch: l}
	}
	small, large := results.Launch{Tile: [3]int{16, 32, 8}, Waves: 1.5, Split: 1},
		results.Launch{Tile: [3]int{64, 64, 8}, Waves: 2.5, Split: 2}
	lines := ""
	for _, l := range []struct {
		m           int
		label, told string
	}{
		{64, "", ",,,,"}, {64, "", "16,32,8,1.5,1"}, {64, "", "64,64,8,2.5,2"},
		{65, "", "16,32,8,1.5,1"}, {65, "", "64,64,8,2.5,2"}, {65, "late", "64,64,8,2.5,2"},
		{66, "", ",,,,"}, {66, "both", "64,64,8,2.5,2"}, {66, "none", "16,32,8,1.5,1"},
	} {
		lines += fmt.Sprintf("cpu,tiled,fp32,%d,128,256,%d,10,%s,%s\n", l.m, strings.Count(lines, fmt.Sprintf(",%d,128,", l.m)), l.label,
			l.told)
	}
	r, err := importing.Import(context.Background(), []string{writeFile(t, "samples.csv", head+lines)},
		filepath.Join(t.TempDir(), "run.db"), importing.Options{})
	must(t, err)
	defer r.Close()
	results.Holds(t, "imported", r.Run, []results.Case{at(64, "", small), at(65, "late", small), at(66, "both", large)})
}

func TestMergeOfSchemas(t *testing.T) {
	first, want := results.Schema1(t)
	one, err := results.Open(first)
	must(t, err)
	var b bytes.Buffer
	must(t, export.Write(one, &b, export.FormatCSV, export.Samples{}))
	must(t, one.Close())
	if n := bytes.Count(b.Bytes(), []byte("\n")); n != len(want.Samples)+1 {
		t.Errorf("%d lines exported, expected %d", n, len(want.Samples)+1)
	}
	second, _ := results.Schema1(t)
	r, err := results.OpenAppend(second)
	must(t, err)
	must(t, r.Close())
	r, err = merge.Runs(context.Background(), filepath.Join(t.TempDir(), "merged.db"), []string{first, second}, merge.Options{})
	must(t, err)
	defer r.Close()
	got := results.ContentOf(t, r)
	want.Meta.Schema, want.Meta.Plan = results.SchemaVersion, got.Meta.Plan
	if d := cmp.Diff(want, got, results.IgnoreOrigin); d != "" {
		t.Errorf("(-one +both):\n%s", d)
	}
	if origins, err := r.Origins(); err != nil || len(origins) != 2 {
		t.Errorf("origins %+v, %v; expected one per device", origins, err)
	}
}

func TestOriginsTravel(t *testing.T) {
	const rows = `device,kernel,dtype,m,n,k,round,us,run,host,card,labels
cuda:0,lib,bf16,8,8,16,0,1.5,aa,alpha,GPU-1,"{""rack"":""7"",""row"":""b""}"
cuda:0,lib,bf16,8,8,16,1,1.5,bb,beta,GPU-2,
cuda:0,lib,bf16,8,8,16,2,1.5,aa,alpha,GPU-1,"{""rack"":""7"",""row"":""b""}"
`
	want := []results.Origin{
		{ID: 1, Run: "aa", Host: "alpha", Device: "cuda:0", Card: "GPU-1", Labels: map[string]string{"rack": "7", "row": "b"}},
		{ID: 2, Run: "bb", Host: "beta", Device: "cuda:0", Card: "GPU-2"},
	}
	r, err := importing.Import(t.Context(), []string{writeFile(t, "rows.csv", rows)}, filepath.Join(t.TempDir(), "run.db"),
		importing.Options{})
	must(t, err)
	defer r.Close()
	if d := cmp.Diff(want, must1(r.Origins())(t)); d != "" {
		t.Errorf("imported:\n%s", d)
	}
	merged, err := merge.Runs(t.Context(), filepath.Join(t.TempDir(), "merged.db"), []string{r.Path()}, merge.Options{})
	must(t, err)
	defer merged.Close()
	if d := cmp.Diff(want, must1(merged.Origins())(t)); d != "" {
		t.Errorf("merged:\n%s", d)
	}
	var b bytes.Buffer
	must(t, export.Write(merged, &b, export.FormatCSV, export.Samples{}))
	for i, line := range strings.Split(strings.TrimSpace(b.String()), "\n")[1:] {
		if end := strings.Split(rows, "\n")[i+1][len("cuda:0,lib,bf16,8,8,16,0,1.5,"):]; !strings.HasSuffix(line,
			","+end+",gemm,kn,,,,cuda:0,,,") {
			t.Errorf("line %d is %s, expected it to end in %s", i, line, end)
		}
	}
	_, err = importing.Import(t.Context(), []string{writeFile(t, "bad.csv", strings.Replace(rows, `"{""rack"":""7""`, `"{""rack"":7`, 1))},
		filepath.Join(t.TempDir(), "bad.db"), importing.Options{})
	var cell *importing.Error
	if !errors.As(err, &cell) || cell.Column != "labels" {
		t.Errorf("%v, expected labels to be refused", err)
	}
}
