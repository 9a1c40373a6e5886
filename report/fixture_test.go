package report

import (
	"math"
	"math/rand/v2"
	"time"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/results"
	"github.com/gemmaudit/gemmaudit/results/table"
	"github.com/gemmaudit/gemmaudit/rules"
	"github.com/gemmaudit/gemmaudit/rules/cause"
	"github.com/gemmaudit/gemmaudit/rules/remedy"
	"github.com/gemmaudit/gemmaudit/rules/stats"
)

// hostile is a name that tries to break every output format.
const hostile = "evil|`x`\x1b[31m<script>alert(1)</script>\n@everyone [a](http://b) \u202e,\"q\" =1+1"

var fixtureKey = results.SeriesKey{Device: "cpu", Kernel: "amx", Subject: kernels.Product(kernels.BF16, 14336, 4096),
	Regime: results.Engine, Threads: 2}

func fixturePeak() kernels.Peak {
	return kernels.Peak{DType: kernels.BF16, FLOPS: 6.2e12, Origin: kernels.Measured, ClockMHz: 3100, Unit: "AMX"}
}

func fixtureMeta() results.Meta {
	return results.Meta{
		Schema: 1, Created: time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC), Command: "gemmaudit run --preset quick", Gemmaudit: "0.1.0",
		Regime: results.Engine, Distribution: kernels.Normal, Seed: 42,
		Fingerprint: results.Fingerprint{
			Gemmaudit: "0.1.0", Hostname: "node7", OS: "Debian GNU/Linux 12", Kernel: "6.1.0-18-amd64", Arch: "amd64",
			CPUModel: "INTEL(R) XEON(R) PLATINUM 8592+", Microcode: "0x21000230", Cores: 2, MemoryGiB: 15.6, Governor: "performance",
			Turbo:   "on",
			Devices: []kernels.Spec{fixtureSpec()},
		},
		Ceilings: map[string]kernels.Ceilings{"cpu": fixtureCeilings()},
	}
}

func fixtureSpec() kernels.Spec {
	return kernels.Spec{
		ID: "cpu", Kind: kernels.CPU, Name: "INTEL(R) XEON(R) PLATINUM 8592+", Units: 2, MemoryBytes: 16 << 30,
		Caches: []kernels.Cache{{Level: 1, Bytes: 48 << 10, Count: 2}, {Level: 2, Bytes: 2 << 20, Count: 2},
			{Level: 3, Bytes: 320 << 20, Count: 1}},
		Features: []string{"avx2", "avx512f", "avx512_bf16", "amx_tile", "amx_bf16"}, LastLevelCacheBytes: 320 << 20,
		Versions: map[string]string{"onednn": "2.6.3", "openblas": "0.3.21"},
	}
}

func fixtureCeilings() kernels.Ceilings {
	return kernels.Ceilings{
		Peaks: []kernels.Peak{
			{DType: kernels.BF16, FLOPS: 6.3e12, Origin: kernels.Computed, ClockMHz: 3200, Unit: "AMX"}, fixturePeak(),
			{DType: kernels.FP32, FLOPS: 428e9, Origin: kernels.Measured, Unit: "AVX-512 FMA"},
		},
		ReadBandwidth: 28.1e9, CopyBandwidth: 24.9e9,
	}
}

// fixtureSeries is a curve with a cliff between m256 and m320, three samples a row, one failed row and one
// hostile label.
func fixtureSeries() []results.Series {
	s := results.Series{Key: fixtureKey, Peak: fixturePeak(), Bandwidth: kernels.Bandwidth{Rate: 28.1e9, Of: kernels.Reading}}
	started := time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC).UnixMicro()
	for i, m := range []int{64, 128, 192, 256, 320, 384, 448, 512} {
		c := results.Case{ID: int64(i + 1), SeriesKey: fixtureKey, M: m}
		row := results.Row{Case: c}
		us := c.FLOPs() / (0.62 * 6.2e12) * 1e6
		if m > 256 && m < 384 {
			us *= 1.31
		}
		if m == 448 {
			row.Failed = "out of memory: wanted 512 MiB"
		} else {
			for round, noise := range []float64{1, 1.004, 0.998} {
				row.Samples = append(row.Samples, results.Sample{
					CaseID: c.ID, Phase: results.PhaseSweep, Round: round, Seq: int64(round*8 + i),
					StartedUnixMicro: started + int64(round*8+i)*1e6,
					Launches:         4, US: us * noise, ClockMHz: 3100 - float64(10*round),
				})
			}
		}
		if m == 512 {
			row.Case.Label = hostile
		}
		s.Rows = append(s.Rows, row)
	}
	return []results.Series{s}
}

func fixtureRemedy() rules.Remedy {
	return rules.Remedy{
		Kind: rules.RemedySplit, M: 320, Parts: []int{64, 256}, PredictedUS: 9830.4, DirectUS: 12860.1, SweepUS: 13012.6, Executed: true,
		ExecutedUS: stats.Interval{Lo: 9901.2, Mid: 9912.7, Hi: 9930.4}, Gain: stats.Interval{Lo: 1.288, Mid: 1.297, Hi: 1.301},
		AdjustedP: 0.00042, Pays: true, StakeUS: 2944.9,
		Numerics: &results.Numerics{DirectError: 0.00171, RemedyError: 0.00169, BatchInvariant: true, DirectBatchInvariant: true,
			OtherMs: []int{1, 160, 319}, Rows: 16, Columns: 16},
	}
}

func fixtureAudit() *rules.Audit {
	fix := fixtureRemedy()
	rows := []rules.RowVerdict{}
	for _, m := range []int{64, 128, 192, 256, 320, 384, 512} {
		mfu, verdict := 0.62, rules.Clean
		switch m {
		case 320:
			mfu, verdict = 0.473, rules.Anomalous
		case 384:
			mfu, verdict = 0.57, rules.Undecided
		case 512:
			mfu, verdict = 0.554, rules.Marginal
		}
		us := kernels.Shape{M: m, N: 14336, K: 4096}.FLOPs() / (mfu * 6.2e12) * 1e6
		r := rules.RowVerdict{
			M: m, Verdict: verdict, US: stats.Interval{Lo: us * 0.99, Mid: us, Hi: us * 1.01},
			MFU: stats.Interval{Lo: mfu * 0.99, Mid: mfu, Hi: mfu * 1.01},
			P:   0.5, AdjustedP: 0.8, Samples: 3,
		}
		if m > 64 {
			r.Reference, r.Expected = 64, 0.9*0.6138
		}
		if m == 320 {
			r.P, r.AdjustedP = 1e-6, 7e-6
		}
		rows = append(rows, r)
	}
	return &rules.Audit{
		Schema: "gemmaudit.audit/1", Run: "out/run.db", Method: "interval", Threshold: 0.9, FDR: 0.05, Drift: 0.021, Corrected: true,
		Cases: 8, Flagged: []int{320}, Marginal: 1, Undecided: 1,
		Series: []rules.SeriesAudit{{Key: fixtureKey, Cases: 8, Flagged: []int{320}, Rows: rows}},
		Findings: []rules.Finding{
			{
				ID: "monotonic-7c1e", Rule: rules.Monotonic, Series: fixtureKey, FromM: 320, ToM: 320, Rows: 1, WorstM: 320,
				Loss: stats.Interval{Lo: 0.221, Mid: 0.237, Hi: 0.252}, StakeUS: 3083.9, AdjustedP: 7e-6, Status: rules.Confirmed,
				Cause:       cause.TileQuantization,
				Explanation: "m320 fills 1.25 of 2 tiles of 256 rows", Remedy: &fix,
				Reproduce: "gemmaudit sweep --shape n14336k4096 --batches 256,320 --dtype bf16 --kernel amx --rounds 20",
			},
			{
				ID: "roofline-01ab", Rule: rules.Roofline, Series: fixtureKey, FromM: 1, ToM: 32, Rows: 6, WorstM: 1,
				Loss: stats.Interval{Lo: 0.05, Mid: 0.09, Hi: 0.13}, StakeUS: 412.6, AdjustedP: 0.031, Status: rules.Waived,
				Cause:       cause.MemoryBound,
				Explanation: hostile, Waiver: "known, until 2027-01-01", Reproduce: "gemmaudit sweep --shape n14336k4096",
			},
			{
				ID: "alternative-93", Rule: rules.Alternative, Series: fixtureKey, FromM: 512, ToM: 1024, Rows: 12, WorstM: 512,
				Loss: stats.Interval{Lo: 0.01, Mid: 0.04, Hi: 0.07}, AdjustedP: 0.0472, Status: rules.Unconfirmed,
				Cause:     cause.HeuristicChoice,
				Remedy:    &rules.Remedy{Kind: rules.RemedyOther, M: 512, Kernel: "onednn", PredictedUS: 15000, DirectUS: 15640},
				Reproduce: "gemmaudit sweep --shape n14336k4096 --batches 512",
			},
		},
		Warnings: []rules.Warning{{Subject: "run", Text: "the sentinels drifted by 2.1 %, corrected for"}},
	}
}

func fixtureSplits() *remedy.Result {
	return &remedy.Result{
		Schema: "gemmaudit.splits/1", Run: "out/run.db", Method: "interval",
		Splits: []remedy.Row{
			{Series: fixtureKey, Remedy: fixtureRemedy()},
			{Series: fixtureKey, Remedy: rules.Remedy{
				Kind: rules.RemedyPad, M: 321, PadTo: 384, Pad: table.Copied, PredictedUS: 11634, DirectUS: 12910, Executed: true,
				ExecutedUS: stats.Interval{Lo: 12701, Mid: 12840, Hi: 12990}, Gain: stats.Interval{Lo: 0.99, Mid: 1.005, Hi: 1.02},
				AdjustedP: 0.31,
			}},
			{Series: fixtureKey,
				Remedy: rules.Remedy{Kind: rules.RemedySplit, M: 336, Parts: []int{80, 256}, PredictedUS: 10301.5, DirectUS: 13503,
					StakeUS: 3201.5}},
		},
		Rejected: []remedy.Row{{Series: fixtureKey, Remedy: rules.Remedy{
			Kind: rules.RemedySplit, M: 384, Parts: []int{128, 256}, PredictedUS: 11600, DirectUS: 12100, Executed: true,
			ExecutedUS: stats.Interval{Lo: 12300, Mid: 12402, Hi: 12500}, Gain: stats.Interval{Lo: 0.96, Mid: 0.976, Hi: 0.98},
			AdjustedP: 1,
		}}},
		Stretches: []remedy.Stretch{{Series: fixtureKey, FromM: 304, ToM: 320, Kind: rules.RemedySplit, Fixed: []int{256}, Filled: true,
			Proofs: []rules.Remedy{fixtureRemedy()}, StakeUS: 5703.1},
			{Series: fixtureKey, FromM: 400, ToM: 408, Kind: rules.RemedyAlgorithm, Kernel: "cublaslt", OnlySwept: true,
				Ms:        []int{400, 408},
				Algorithm: kernels.Algorithm{ID: 66, Tile: 20, Stages: 35, SplitK: 1, Swizzle: 1, Cluster: 3}, StakeUS: 310.5},
			{Series: fixtureKey, FromM: 8, ToM: 64, Kind: rules.RemedyPad, PadTo: 96, Pad: table.InPlace, Ms: []int{8, 16, 32, 64},
				StakeUS: 12.5}},
		Ranges: []rules.Range{{FromM: 1, ToM: 4096}}, TrafficUncovered: 0.0625,
		Savings:  []remedy.Saving{{Device: fixtureKey.Device, Kernel: fixtureKey.Kernel, DirectUS: 250000, SavedUS: 6013.6, Weighed: true}},
		Warnings: []rules.Warning{{Subject: "m336", Text: "not executed: the deadline had passed"}},
	}
}

// staircase is a synthetic series of n rows whose time rises in waves. Its audit flags the start of each
// wave, as in a large run.
func staircase(n, step, wave int, noise float64) (results.Series, rules.SeriesAudit, []rules.Finding) {
	rng := rand.New(rand.NewPCG(1, 2))
	key := results.SeriesKey{Device: "cuda:0", Kernel: "cublas", Subject: kernels.Product(kernels.FP16, 14336, 4096),
		Regime: results.Engine}
	peak := kernels.Peak{DType: kernels.FP16, FLOPS: 165e12, Origin: kernels.DataSheet, ClockMHz: 2520, Unit: "tensor core"}
	s := results.Series{Key: key, Peak: peak}
	a := rules.SeriesAudit{Key: key, Cases: n}
	var findings []rules.Finding
	best := 0.0
	for i := range n {
		m := (i + 1) * step
		c := results.Case{ID: int64(i + 1), SeriesKey: key, M: m}
		waves := math.Ceil(float64(m) / float64(wave))
		us := 30 + waves*kernels.Shape{M: wave, N: key.N, K: key.K}.FLOPs()/(0.93*peak.FLOPS)*1e6
		us *= 1 + noise*rng.NormFloat64()
		mfu := c.FLOPs() / (us * 1e-6) / peak.FLOPS
		r := rules.RowVerdict{
			M: m, Verdict: rules.Clean, Samples: 9, US: stats.Interval{Lo: us * (1 - noise), Mid: us, Hi: us * (1 + noise)},
			MFU: stats.Interval{Lo: mfu * (1 - noise), Mid: mfu, Hi: mfu * (1 + noise)},
		}
		if best > 0 {
			r.Reference, r.Expected = m, 0.9*best
		}
		switch {
		case r.MFU.Hi < r.Expected:
			r.Verdict = rules.Anomalous
			a.Flagged = append(a.Flagged, m)
			if f := len(findings) - 1; f >= 0 && findings[f].ToM == m-step {
				findings[f].ToM, findings[f].Rows = m, findings[f].Rows+1
			} else {
				findings = append(findings, rules.Finding{
					Rule: rules.Monotonic, Series: key, FromM: m, ToM: m, Rows: 1, WorstM: m, Status: rules.Confirmed,
					Cause: cause.WaveQuantization,
					Loss:  stats.Interval{Lo: 0.1, Mid: 0.12, Hi: 0.14},
				})
			}
		case r.MFU.Lo < r.Expected:
			r.Verdict = rules.Undecided
		}
		best = max(best, r.MFU.Lo)
		a.Rows = append(a.Rows, r)
		s.Rows = append(s.Rows,
			results.Row{Case: c, Samples: []results.Sample{{CaseID: c.ID, Phase: results.PhaseSweep, Launches: 10, US: us}}})
	}
	return s, a, findings
}

func executed(in Input) Input {
	direct := results.Case{SeriesKey: in.Series[0].Key, M: 320}
	split := direct
	split.Parts = []int{64, 256}
	for _, c := range []struct {
		c  results.Case
		us float64
	}{{direct, 12860}, {split, 9912}} {
		row := results.Row{Case: c.c}
		for i := range 12 {
			row.Samples = append(row.Samples, results.Sample{Phase: results.PhaseRemedy, Round: i, US: c.us * (1 + 0.002*float64(i%5))})
		}
		in.Executed = append(in.Executed, row)
	}
	return in
}
