package rules

import (
	"fmt"
	"math"
	"slices"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/results"
	"github.com/gemmaudit/gemmaudit/rules/cause"
	"github.com/gemmaudit/gemmaudit/rules/infer"
	"github.com/gemmaudit/gemmaudit/rules/phrase"
	"github.com/gemmaudit/gemmaudit/rules/stats"
)

// parity: a data type may not take more than its ratio of another's time at the same shape and kernel. With
// several partners, the row gets the judgement with the smallest p-value, corrected for their number.
func (f *Facts) parity(c *infer.Curve) []Judgement {
	if c.Series.Key.Quantized() && !c.Series.Key.Scaled() {
		return f.quantised(c)
	}
	var rows []Judgement
	partners := 0.0
	for _, pair := range f.Cfg.Rules.Parity.Pairs {
		if pair.DType != c.Series.Key.DType {
			continue
		}
		partners++
		key := c.Series.Key
		key.DType, key.Weights = pair.Than, kernels.WeightFormat{}
		other := f.keyed[key]
		if other == nil {
			continue
		}
		for i, p := range c.Points {
			o, ok := other.At(p.M)
			if !ok || !p.Judged(f.Cfg.MinSamples) || !other.Points[o].Serves(f.Cfg.MinSamples) {
				continue
			}
			if rows == nil {
				rows = f.blank(c)
			}
			j := Judgement{Curve: c, Point: i, sign: 1, p: 1, adjusted: 1, Verdict: Clean}
			f.hold(&j, other.Points[o].US, math.Log(pair.Ratio))
			if !rows[i].Tested || j.p < rows[i].p {
				j.Against = against(other, o, j.kept)
				rows[i] = j
			}
		}
	}
	for i := range rows {
		rows[i].p = math.Min(1, rows[i].p*max(partners, 1))
	}
	return rows
}

// quantised: weights with fewer bits may not take more than their ratio of the time of plain ones at the same
// shape, on any kernel.
func (f *Facts) quantised(c *infer.Curve) []Judgement {
	plain := f.onPlainWeights(c)
	if len(plain) == 0 || f.dequantises(c.Series.Key.Kernel) {
		return nil
	}
	return f.fastest(c, plain, math.Log(f.Cfg.Rules.Parity.Quantised))
}

// dequantises reports whether a kernel, or the library that it is a choice of, multiplies plain elements.
func (f *Facts) dequantises(kernel string) bool {
	name, _ := kernels.SplitVersion(kernels.ChooserOf(kernel))
	return slices.Contains(f.Cfg.Rules.Parity.Dequantising, kernel) || slices.Contains(f.Cfg.Rules.Parity.Dequantising, name)
}

// onPlainWeights lists the curves of any kernel, with correct results, for the products of a curve with plain
// weights.
func (f *Facts) onPlainWeights(c *infer.Curve) []*infer.Curve {
	var out []*infer.Curve
	key := ProductOf(c.Series.Key)
	key.Weights = kernels.WeightFormat{}
	for _, other := range f.products[key] {
		if !other.Wrong() && kernels.Peers(c.Series.Key.Kernel, other.Series.Key.Kernel) {
			out = append(out, other)
		}
	}
	return out
}

func (f *Facts) alternative(c *infer.Curve) []Judgement {
	others := f.competitors(c)
	if len(others) == 0 {
		return nil
	}
	return f.fastest(c, others, math.Log1p(f.Cfg.Rules.Alternative.Margin))
}

// competitors are the alternatives that a curve is compared with; none for a kernel that is not judged.
func (f *Facts) competitors(c *infer.Curve) []*infer.Curve {
	if slices.Contains(f.Cfg.Rules.Alternative.Exclude, c.Series.Key.Kernel) {
		return nil
	}
	return slices.DeleteFunc(f.Elsewhere(c), func(other *infer.Curve) bool { return f.judgedByFusion(c, other) })
}

// fastest judges the rows of a curve by the least time of other curves, plus margin in logs.
func (f *Facts) fastest(c *infer.Curve, others []*infer.Curve, margin float64) []Judgement {
	rows := f.blank(c)
	for i, p := range c.Points {
		if !p.Judged(f.Cfg.MinSamples) {
			continue
		}
		top := stats.NewBest()
		for k, other := range others {
			if o, ok := other.At(p.M); ok && other.Points[o].Serves(f.Cfg.MinSamples) && other.Points[o].Folded {
				e := other.Points[o]
				top.Add(k, -e.US.Y, stats.NegateFolds(e.Without), stats.NegateFolds(e.Of))
			}
		}
		if top.Point < 0 {
			continue
		}
		other := others[top.Point]
		o, _ := other.At(p.M)
		e := other.Points[o]
		f.hold(&rows[i], stats.Estimate{Y: -top.Value(), SE: e.US.SE, DF: e.US.DF, Open: e.US.Open}, margin)
		rows[i].Against = against(other, o, rows[i].kept)
	}
	return rows
}

// Elsewhere lists the curves of other kernels, with correct results, for the products of a curve. They are its peers.
func (f *Facts) Elsewhere(c *infer.Curve) []*infer.Curve {
	var out []*infer.Curve
	own := c.Series.Key.Kernel
	for _, other := range f.products[ProductOf(c.Series.Key)] {
		if name := other.Series.Key.Kernel; name != own && !other.Wrong() && kernels.Peers(own, name) {
			out = append(out, other)
		}
	}
	return out
}

// BestElsewhere finds the accepted series of another kernel with the least upper bound at M, or nil.
func (f *Facts) BestElsewhere(c *infer.Curve, m int, takes func(*infer.Curve) bool) (*infer.Curve, int) {
	var best *infer.Curve
	at := -1
	for _, other := range f.Elsewhere(c) {
		if !takes(other) {
			continue
		}
		if o, ok := other.At(m); ok && !math.IsInf(f.Upper[other][o], 1) && (best == nil || f.Upper[other][o] < f.Upper[best][at]) {
			best, at = other, o
		}
	}
	return best, at
}

// attainable is the log of the roofline time for an M in microseconds; peak and bandwidth are known.
func attainable(s results.Series, m int) float64 {
	memory := math.Log(s.Key.Bytes(m) / s.Bandwidth.Rate * 1e6)
	if s.Peak.Memory.Rate > 0 {
		return memory
	}
	return math.Max(math.Log(s.Key.FLOPs(m)/s.Peak.FLOPS*1e6), memory)
}

func past(s results.Series) func(*Judgement) string {
	return func(j *Judgement) string {
		p := j.Curve.Points[j.Point]
		ceiling, memoryBound := infer.LeastTime(s, p.M)
		what := fmt.Sprintf("the %s peak of %s TFLOP/s", s.Peak.Origin, phrase.Figure(s.Peak.FLOPS/1e12))
		if memoryBound {
			what = fmt.Sprintf("reading the %s at %s GB/s allows: some did not come from memory", s.Key.Operation.Stored(),
				phrase.Figure(s.Bandwidth.Rate/1e9))
		}
		return fmt.Sprintf("%s took %s us, %s times as fast as %s%s", j.Curve.Name(p.M), phrase.Figure(math.Exp(p.Seen.Y)),
			phrase.Figure(math.Exp(ceiling-p.Seen.Y)), what, infer.LikelyUnit(j.Curve.TooFast()).Text())
	}
}

func below(s results.Series) func(*Judgement) string {
	return func(j *Judgement) string {
		p := j.Curve.Points[j.Point]
		flops, bytes := s.Key.FLOPs(p.M), s.Key.Bytes(p.M)
		attainable := attainable(s, p.M)
		if s.Peak.Memory.Rate > 0 {
			return fmt.Sprintf("%s took %s us, but the %s bandwidth allows %s us: it reached %s of %s GB/s, %.0f %%", j.Curve.Name(p.M),
				phrase.Figure(math.Exp(p.Seen.Y)),
				s.Bandwidth.Of, phrase.Figure(math.Exp(attainable)), phrase.Figure(bytes/math.Exp(p.Seen.Y)/1e3),
				phrase.Figure(s.Bandwidth.Rate/1e9),
				100*math.Exp(attainable-p.Seen.Y))
		}
		text := fmt.Sprintf("%s took %s us, but min(peak, intensity × bandwidth) allows %s us: ", j.Curve.Name(p.M),
			phrase.Figure(math.Exp(p.Seen.Y)), phrase.Figure(math.Exp(attainable)))
		if math.Log(bytes/s.Bandwidth.Rate*1e6) >= attainable {
			return text + fmt.Sprintf("memory is the limit, and it reached %s of %s GB/s, %.0f %%",
				phrase.Figure(bytes/math.Exp(p.Seen.Y)/1e3), phrase.Figure(s.Bandwidth.Rate/1e9), 100*math.Exp(attainable-p.Seen.Y))
		}
		return text + fmt.Sprintf("it reached %s, %.0f %%, and memory is not the limit",
			phrase.Rates(flops/math.Exp(p.Seen.Y)*1e6, s.Peak.FLOPS), 100*math.Exp(attainable-p.Seen.Y))
	}
}

// roofline: MFU may not be far below what compute and bandwidth allow, nor above it, which is a measurement
// error. If only memory bounds the operation, any rate is possible, because the operands may have been in a
// cache. Ceilings have no common clock, so observed time is compared with them.
func (f *Facts) roofline(c *infer.Curve) []Judgement {
	return f.ceilings(c, func(i int) (stats.Estimate, bool) {
		p := &c.Points[i]
		return p.Seen, p.Judged(f.Cfg.MinSamples)
	})
}

// ceilings compares the observed times of a curve's points with its ceilings, for points that seen accepts.
func (f *Facts) ceilings(c *infer.Curve, seen func(int) (stats.Estimate, bool)) []Judgement {
	s := c.Series
	cached := s.Bandwidth.Rate <= 0 || s.Key.Regime == results.Hot
	memory := s.Peak.Memory.Rate > 0
	if s.Peak.FLOPS <= 0 || memory && cached {
		return nil
	}
	rows := f.blank(c)
	r := f.Cfg.Rules.Roofline
	tooFast, tooSlow := past(s), below(s)
	for i, p := range c.Points {
		seen, ok := seen(i)
		if !ok {
			continue
		}
		j := &rows[i]
		half := f.Half(seen)
		j.Tested = true
		fast, sides := 1.0, 1.0
		j.kept = true
		if !memory {
			ceiling, _ := infer.LeastTime(s, p.M)
			limit := ceiling - math.Log1p(r.Tolerance)
			fast, sides = stats.UpperP((limit-seen.Y-seen.Open)/seen.SE, seen.DF), 2
			j.p, j.bound, j.sign = math.Min(1, 2*fast), limit, -1
			j.broken, j.kept = seen.Y+half < limit, seen.Y-half >= limit
			over := ceiling - seen.Y
			j.Loss = stats.Interval{Lo: stats.Lost(over + half), Mid: stats.Lost(over), Hi: stats.Lost(over - half)}
			j.cause, j.explain = cause.MeasurementError, tooFast
		}
		if cached {
			continue
		}
		attainable := attainable(s, p.M)
		limit := attainable - math.Log(r.Fraction)
		slow := seen.Above(limit)
		keptBoth := j.kept && seen.Y+half <= limit
		if slow < fast || memory {
			j.p, j.bound, j.sign = math.Min(1, sides*slow), limit, 1
			j.broken = seen.Y-half > limit
			j.Loss = stats.Interval{Lo: stats.Lost(attainable - seen.Y + half), Mid: stats.Lost(attainable - seen.Y),
				Hi: stats.Lost(attainable - seen.Y - half)}
			// Memory is idle, so the kernel is not waiting for it.
			j.cause, j.explain = cause.Implementation, tooSlow
		}
		j.kept = keptBoth
	}
	return rows
}
