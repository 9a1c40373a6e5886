package results_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/results"
	"github.com/gemmaudit/gemmaudit/results/export"
	"github.com/gemmaudit/gemmaudit/results/merge"
)

func shard(t *testing.T, change func(*results.Meta), sample func(*results.Sample)) string {
	t.Helper()
	meta := results.SomeMeta()
	if change != nil {
		change(&meta)
	}
	r, err := results.Create(filepath.Join(t.TempDir(), "shard.db"), meta)
	must(t, err)
	cases, err := r.AddCases([]results.Case{{SeriesKey: results.SomeKey, M: 4}})
	must(t, err)
	s := results.SomeSample(cases[0], results.PhaseSweep, 0, 0)
	if sample != nil {
		sample(&s)
	}
	must(t, r.Append(s))
	must(t, r.Close())
	return r.Path()
}

func TestMergeRefuses(t *testing.T) {
	first := shard(t, nil, nil)
	for _, tt := range []struct {
		name   string
		change func(*results.Meta)
		want   string
	}{
		{"seed", func(m *results.Meta) { m.Seed = 7 }, `seed differs: "9223372036854775813" and "7"`},
		{"regime", func(m *results.Meta) { m.Regime = results.Hot }, `regime differs: "engine" and "hot"`},
		{"distribution", func(m *results.Meta) { m.Distribution = kernels.Zeros }, `distribution differs: "normal" and "zeros"`},
		{"plan", func(m *results.Meta) { m.Plan = json.RawMessage(`{"batches":"4:32:4"}`) }, `plan.batches differs: "4:64:4" and "4:32:4"`},
		{"no plan", func(m *results.Meta) { m.Plan = nil }, `plan differs: {"batches":"4:64:4"} and nothing`},
		{"machine", func(m *results.Meta) { m.Fingerprint.Hostname = "beta" }, `fingerprint.hostname differs: "alpha" and "beta"`},
		{"library", func(m *results.Meta) {
			m.Fingerprint.Devices[0].Versions = map[string]string{"openblas": "0.3.26"}
		}, `fingerprint.devices[0].versions.openblas differs: "0.3.21" and "0.3.26"`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			second := shard(t, tt.change, func(s *results.Sample) { s.Round = 1 })
			out := filepath.Join(t.TempDir(), "merged.db")
			_, err := merge.Runs(context.Background(), out, []string{first, second}, merge.Options{})
			var e *merge.Error
			if !errors.As(err, &e) || !strings.HasSuffix(err.Error(), tt.want) {
				t.Fatalf("%v\nexpected it to end in %s", err, tt.want)
			}
			if _, err := os.Stat(out); err == nil {
				t.Error("a refused merge left a file")
			}
			r, err := merge.Runs(context.Background(), out, []string{first, second}, merge.Options{DifferentMachines: true})
			if e.Machine != (err == nil) {
				t.Errorf("machine %v, and with the option: %v", e.Machine, err)
			}
			if err == nil {
				r.Close()
			}
		})
	}
}

func TestMergeConflictingSamples(t *testing.T) {
	first := shard(t, nil, nil)
	second := shard(t, nil, func(s *results.Sample) { s.US++ })
	_, err := merge.Runs(context.Background(), filepath.Join(t.TempDir(), "m.db"), []string{first, second}, merge.Options{})
	if err == nil || !strings.Contains(err.Error(), "hold different figures for cpu/tiled/fp32/m4 n4096 k4096, phase sweep, round 0") {
		t.Errorf("%v", err)
	}
}

func TestMergeOfItself(t *testing.T) {
	path := shard(t, func(m *results.Meta) { m.Plan = json.RawMessage(`{"shard":1,"a":1}`) }, nil)
	other := shard(t, func(m *results.Meta) {
		m.Plan = json.RawMessage(`{"a": 1, "shard": 2}`)
		m.Ceilings = map[string]kernels.Ceilings{"cpu": {Peaks: []kernels.Peak{{DType: kernels.FP32, FLOPS: 5e11,
			Origin: kernels.Measured}}, ReadBandwidth: 1}}
	}, nil)
	r, err := merge.Runs(context.Background(), filepath.Join(t.TempDir(), "m.db"), []string{path, other},
		merge.Options{Command: "merge"})
	must(t, err)
	defer r.Close()
	samples, err := r.Samples("")
	must(t, err)
	if len(samples) != 1 {
		t.Errorf("%d samples, expected the one of both", len(samples))
	}
	m := r.Meta()
	if c := m.Ceilings["cpu"]; c.Peaks[0].FLOPS != 5e11 || c.ReadBandwidth != 28e9 {
		t.Errorf("ceilings %+v, expected the highest of both", c)
	}
	if string(m.Plan) != `{"a":1}` || m.Command != "merge" {
		t.Errorf("plan %s, command %q", m.Plan, m.Command)
	}
}

func TestExportPhases(t *testing.T) {
	r, cases := results.NewRun(t, 4)
	must(t, r.Append(results.SomeSample(cases[0], results.PhaseSweep, 0, 0)))
	confirmed := results.SomeSample(cases[0], results.PhaseConfirm, 0, 1)
	confirmed.Allocation, confirmed.EnergyMJ, confirmed.HostUS = 3, 0.25, 12.5
	must(t, r.Append(confirmed))
	cases[0].Launch = results.Launch{Tile: [3]int{128}, Waves: 1.5}
	_, err := r.AddCases(cases)
	must(t, err)
	var b bytes.Buffer
	must(t, export.Write(r, &b, export.FormatCSV, export.Samples{Phases: []results.Phase{results.PhaseConfirm}}))
	want := "device,kernel,dtype,m,n,k,round,us,clock_mhz,power_w,temp_c,phase,seq,started,launches,throttle,disturbance,regime,threads," +
		"pack_inside,parts,pad_to,label,distribution,seed," +
		"allocation,energy_mj,host_us,utils,tile_m,tile_n,tile_k,waves,split,orientation,run,host,card,labels,operation,layout," +
		"dims,operands," +
		"ceilings,device_name,mfu,us_at_clock,reference_clock_mhz\n" +
		"cpu,tiled,fp32,4,4096,4096,0,101.5,3000.25,50,61.5,confirm,1,2023-11-14T22:13:20.005000Z,10,,,engine,2,false,,0,,normal," +
		"9223372036854775813,3,0.25,12.5,,128,,,1.5,,," + r.ID() + ",alpha,," +
		`"{""rack"":""7""}",gemm,kn,,,"{""peaks"":[{""dtype"":""fp32"",""flops"":400000000000,""origin"":""measured"",""unit"":""AVX-512 ` +
		`FMA""}],""read_bandwidth"":28000000000,""copy_bandwidth"":0}",Some CPU,3.305855369458128,,` + "\n"
	if d := cmp.Diff(want, b.String()); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	if err := export.Write(r, &b, export.FormatCSV, export.Samples{Phases: []results.Phase{results.PhaseNoise}}); err == nil ||
		!strings.Contains(err.Error(), "no samples of phase noise") {
		t.Errorf("%v", err)
	}
	err = export.Write(r, &b, "xml", export.Samples{})
	if err == nil || err.Error() != `unknown format "xml": expected one of csv, jsonl, parquet` {
		t.Errorf("%v", err)
	}
	full := errors.New("no room")
	if err := export.Write(r, failing{full}, export.FormatJSONL, export.Samples{}); !errors.Is(err, full) {
		t.Errorf("%v, expected the writer's error", err)
	}
}

type failing struct{ err error }

func (f failing) Write([]byte) (int, error) { return 0, f.err }
