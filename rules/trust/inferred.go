package trust

import (
	"context"
	"errors"
	"math"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/kernels/simulated"
	"github.com/gemmaudit/gemmaudit/results"
	"github.com/gemmaudit/gemmaudit/rules"
	"github.com/gemmaudit/gemmaudit/rules/choose"
	"github.com/gemmaudit/gemmaudit/rules/stats"
	"github.com/gemmaudit/gemmaudit/sweep"
)

// isolatedShare is the share of isolated slow rows in sweeps with inferred rows.
const isolatedShare = 0.004

func inferredGrid() sweep.Batches {
	var ms sweep.Batches
	for m := 8; m <= 4096; m += 8 {
		ms = append(ms, m)
	}
	return ms
}

func (k Kind) grid() sweep.Batches {
	if k.infers {
		return inferredGrid()
	}
	return grid()
}

func (s *subject) infer(ctx context.Context, v *visit, r *sweep.Runner, chooser choose.OpenRows) error {
	if !s.kind.untold {
		told, err := sweep.AskChoices(ctx, r.Devices, r.Plan, sweep.Asking{})
		if err == nil {
			err = told.Store(v.run)
		}
		if err != nil {
			return err
		}
		chooser.Choices = told.Choices
	}
	chooser.Asked, chooser.Seed, chooser.Devices = results.Inferred(r.Plan.Own()), r.Plan.Seed, []kernels.Spec{v.device.Spec()}
	chooser.Launched = v.run.Cases
	r.Chooser = chooser
	r.Designer = choose.Designer{Config: s.cfg, Ceilings: chooser.Ceilings, Devices: chooser.Devices, Looks: chooser.Looks,
		Clocks: chooser.Clocks, Launched: chooser.Launched, Seed: r.Plan.Seed}
	return nil
}

func (s *subject) examineInferred(ctx context.Context) (err error) {
	v, err := s.sweep(ctx, "inferred", simulated.Session{Seed: s.rng.Uint64()}, 0)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, v.close()) }()
	audit, err := s.audit(ctx, v, false)
	if err == nil {
		s.scoreInferred(v, audit)
	}
	return err
}

// An isolated slow row that was not measured cannot be detected.
func (s *subject) scoreInferred(v *visit, a *rules.Audit) {
	t := s.tally
	bound := 1 - s.cfg.Threshold
	var offs []float64
	for _, series := range a.Series {
		if i := series.Inference; i != nil {
			t.count(ChecksOutside).merge(Count{i.Checked - i.Inside, i.Checked})
			t.count(UnknownRows).merge(Count{i.Open, i.Asked})
		}
		for _, r := range series.Rows {
			offs = append(offs, math.Log(r.US.Mid/(v.truth.seconds(results.Case{SeriesKey: series.Key, M: r.M}).Lo*1e6)))
		}
	}
	common := stats.Median(offs)
	for _, series := range a.Series {
		kernel := series.Key.Kernel
		for _, r := range series.Rows {
			t.count(InferredRows).add(r.Inferred)
			isolated := s.machine.Isolated(kernel, r.M)
			loss := v.truth.loss(kernel, r.M)
			if isolated && loss.Lo >= bound+SlowBeyond {
				t.count(MissedIsolated).add(r.Verdict == rules.Clean)
			}
			if !r.Inferred || isolated {
				continue
			}
			us := v.truth.seconds(results.Case{SeriesKey: series.Key, M: r.M}).Lo * 1e6 * math.Exp(common)
			o := Offence{Kernel: kernel, M: r.M, Rule: string(rules.Monotonic), Verdict: string(r.Verdict),
				Truth: simulated.Range{Lo: us, Hi: us}, Claimed: r.US}
			off := math.Max(math.Log(r.US.Lo/us), math.Log(us/r.US.Hi))
			s.judge(v, UncoveredInferred, off > 0, off, o)
			far := math.Abs(math.Log(r.US.Mid / us))
			s.judge(v, FarInferred, far > FarBeyond, far, o)
			if loss.Lo >= bound+SlowBeyond {
				t.count(MissedInferred).add(r.Verdict == rules.Clean)
			}
		}
	}
}

// isolated reports whether a row's slowness is visible only by measuring it.
func (s *subject) isolated(kernel string, m int) bool {
	return s.kind.infers && s.machine.Isolated(kernel, m)
}
