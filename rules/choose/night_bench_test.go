package choose

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"runtime"
	"strconv"
	"testing"
	"time"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/results"
	"github.com/gemmaudit/gemmaudit/rules"
	"github.com/gemmaudit/gemmaudit/rules/infer"
	"github.com/gemmaudit/gemmaudit/rules/synthetic"
)

const (
	nightVariable     = "NIGHT"      // number of series, 2 by default; 45 are a million and a half rows
	nightFileVariable = "NIGHT_FILE" // new file for the run
)

// fickle is a library with eighty kernels that switches every dozen rows or so, as vendors' libraries do. The
// time of each is a line in waves, tiles and M. One in sixteen is slower than the others.
func fickle(key results.SeriesKey, m int) (us float64, kind results.LaunchKind) {
	stretch := uint64(math.Log2(float64(m))*24) + uint64(m/13)
	h := (stretch + uint64(key.N)*31 + uint64(key.K)*7 + uint64(len(key.Kernel))) * 0x9e3779b97f4a7c15
	name := int(h >> 32 % 80)
	kind = results.LaunchKind{Label: fmt.Sprint("kernel", name), Tile: [3]int{64 << (name % 2), 64 << (name / 2 % 2), 64},
		Split: 1 + name/9%2, Slots: 132}
	wave := 2 * float64(kind.Tile[0]*kind.Tile[1]) * float64(key.K/kind.Split) / 5e6 * (1 + 0.02*float64(name%7)/7)
	if name%16 == 0 {
		wave *= 1.15
	}
	return 3 + wave*math.Ceil(kind.Waves(m, key.N)) + 0.002*float64(m), kind
}

func nightData(tb testing.TB, series int) infer.Data {
	tb.Helper()
	const rounds = 7
	ms := synthetic.Grid(1, 32768, 1)
	dtypes := []kernels.DType{kernels.BF16, kernels.FP16, kernels.FP8}
	shapes := [][2]int{{6144, 4096}, {4096, 4096}, {28672, 4096}, {14336, 4096}, {4096, 14336}}
	device := kernels.Spec{ID: "sim", Name: "sim", Units: 132}
	data := infer.Data{Name: "night", Asked: map[results.SeriesKey][]int{}, Choices: map[results.SeriesKey]results.Choices{}}
	data.Meta.Seed, data.Meta.Fingerprint.Devices = 7, []kernels.Spec{device}
	d := Designer{Config: rules.Default(), Devices: data.Meta.Fingerprint.Devices, Seed: data.Meta.Seed}
	rng := rand.New(rand.NewPCG(3, 4))
	noise := synthetic.Gaussian(0.002)
	var seq, id int64
	for i := range series {
		shape := shapes[i%len(shapes)]
		key := results.SeriesKey{Device: device.ID, Kernel: fmt.Sprint("library", i/len(shapes)/len(dtypes)), Regime: results.Engine,
			Subject: kernels.Product(dtypes[i/len(shapes)%len(dtypes)], shape[0], shape[1])}
		var choices results.Choices
		for _, m := range ms {
			_, kind := fickle(key, m)
			choices = choices.Add(m, kind, true)
		}
		seeds, err := d.Seeds(results.PlannedSeries{SeriesKey: key, Ms: ms, Infer: true}, choices)
		if err != nil {
			tb.Fatal(err)
		}
		s := results.Series{Key: key, Peak: kernels.Peak{DType: key.DType, FLOPS: 1000e12, Origin: kernels.Measured}}
		for _, m := range seeds {
			us, kind := fickle(key, m)
			id++
			row := results.Row{Case: results.Case{ID: id, SeriesKey: key, M: m, Label: kind.Label,
				Launch: results.Launch{Tile: kind.Tile, Split: kind.Split, Waves: kind.Waves(m, key.N)}}}
			for round := range rounds {
				row.Samples = append(row.Samples, results.Sample{CaseID: id, Phase: results.PhaseSweep, Round: round, Seq: seq, Launches: 8,
					US: us * math.Exp(noise.Draw(rng)), ClockMHz: 1500})
				seq++
			}
			s.Rows = append(s.Rows, row)
		}
		data.Series = append(data.Series, s)
		data.Asked[key], data.Choices[key] = ms, choices
	}
	return data
}

func write(tb testing.TB, d infer.Data, path string) {
	tb.Helper()
	check := func(err error) {
		if err != nil {
			tb.Fatal(err)
		}
	}
	var plan struct {
		Series []results.PlannedSeries `json:"series"`
	}
	peaks := map[kernels.DType]kernels.Peak{}
	for _, s := range d.Series {
		plan.Series = append(plan.Series, results.PlannedSeries{SeriesKey: s.Key, Ms: d.Asked[s.Key], Infer: true})
		peaks[s.Peak.DType] = s.Peak
	}
	meta := d.Meta
	meta.Created, meta.Command, meta.Regime, meta.Distribution = time.Unix(0, 0), "benchmark", results.Engine, kernels.Normal
	var ceilings kernels.Ceilings
	for _, p := range peaks {
		ceilings.Peaks = append(ceilings.Peaks, p)
	}
	meta.Ceilings = map[string]kernels.Ceilings{meta.Fingerprint.Devices[0].ID: ceilings}
	var err error
	meta.Plan, err = json.Marshal(plan)
	check(err)
	run, err := results.Create(path, meta)
	check(err)
	for _, s := range d.Series {
		check(run.SetChoices(s.Key, d.Choices[s.Key]))
		cases := make([]results.Case, len(s.Rows))
		for i, r := range s.Rows {
			cases[i] = r.Case
		}
		cases, err := run.AddCases(cases)
		check(err)
		for i, r := range s.Rows {
			for _, sample := range r.Samples {
				sample.CaseID = cases[i].ID
				check(run.Append(sample))
			}
		}
	}
	check(run.Close())
}

// BenchmarkAuditNight judges a night's run with few measured rows by all rules, and reports the memory held
// at the end. With NIGHT_FILE it writes the run for the program itself: NIGHT=45 NIGHT_FILE=night.db go test
// -run '^$' -bench AuditNight -benchtime 1x ./rules and then /usr/bin/time -v gemmaudit audit night.db, which
// takes 2.9 GB and 35 s of two processors.
func BenchmarkAuditNight(b *testing.B) {
	series, err := strconv.Atoi(os.Getenv(nightVariable))
	if err != nil {
		series = 2
	}
	data := nightData(b, series)
	if path := os.Getenv(nightFileVariable); path != "" {
		write(b, data, path)
	}
	b.ReportAllocs()
	var audit *rules.Audit
	for b.Loop() {
		if audit, err = rules.RunAudit(b.Context(), data, rules.Default(), nil); err != nil {
			b.Fatal(err)
		}
	}
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	b.ReportMetric(float64(m.HeapAlloc>>20), "MB")
	b.Logf("%+v, %d findings", *audit.Inference, len(audit.Findings))
	runtime.KeepAlive(audit)
}
