package rules

import (
	"fmt"
	"math"
	"slices"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/results"
)

// parity: a data type may not take more than its ratio of another's time at the
// same shape and kernel. A row with several partners keeps the accusation of the one that accuses most,
// and its p-value pays for all of them.
func (f *evidence) parity(c *curve) []judgement {
	if c.series.Key.Weights != (kernels.WeightFormat{}) {
		return f.quantised(c)
	}
	var rows []judgement
	partners := 0.0
	for _, pair := range f.cfg.Rules.Parity.Pairs {
		if pair.DType != c.series.Key.DType {
			continue
		}
		partners++
		key := c.series.Key
		key.DType = pair.Than
		other := f.keyed[key]
		if other == nil {
			continue
		}
		for i, p := range c.points {
			o, ok := other.at(p.m)
			if !ok || !p.judged(f.cfg.MinSamples) || !other.points[o].serves(f.cfg.MinSamples) {
				continue
			}
			if rows == nil {
				rows = f.blank(c)
			}
			j := judgement{curve: c, point: i, sign: 1, p: 1, adjusted: 1, verdict: Clean}
			f.hold(&j, other.points[o].us, math.Log(pair.Ratio))
			if !rows[i].tested || j.p < rows[i].p {
				j.against = other.against(o, j.kept)
				rows[i] = j
			}
		}
	}
	for i := range rows {
		rows[i].p = math.Min(1, rows[i].p*max(partners, 1))
	}
	return rows
}

// quantised: weights with fewer bits may not take more than their ratio of the time of plain ones at
// the same shape, by whatever kernel.
func (f *evidence) quantised(c *curve) []judgement {
	plain := f.onPlainWeights(c)
	if len(plain) == 0 || f.dequantises(c.series.Key.Kernel) {
		return nil
	}
	return f.fastest(c, plain, math.Log(f.cfg.Rules.Parity.Quantised))
}

// dequantises says whether a kernel, or the library of which it is a choice, multiplies by plain elements.
func (f *evidence) dequantises(kernel string) bool {
	name, _ := kernels.SplitVersion(kernels.ChooserOf(kernel))
	return slices.Contains(f.cfg.Rules.Parity.Dequantising, kernel) || slices.Contains(f.cfg.Rules.Parity.Dequantising, name)
}

// onPlainWeights lists the curves of any kernel for the products of a curve with plain weights, of those whose results
// are right.
func (f *evidence) onPlainWeights(c *curve) []*curve {
	var out []*curve
	key := productOf(c.series.Key)
	key.Weights = kernels.WeightFormat{}
	for _, other := range f.products[key] {
		if !other.wrong() {
			out = append(out, other)
		}
	}
	return out
}

// alternative: no other kernel of the device may be faster at the same product.
func (f *evidence) alternative(c *curve) []judgement {
	others := f.competitors(c)
	if len(others) == 0 {
		return nil
	}
	return f.fastest(c, others, math.Log1p(f.cfg.Rules.Alternative.Margin))
}

// competitors are the curves that a curve is held against as alternatives; none for a kernel that is not judged.
func (f *evidence) competitors(c *curve) []*curve {
	if slices.Contains(f.cfg.Rules.Alternative.Exclude, c.series.Key.Kernel) {
		return nil
	}
	return f.elsewhere(c)
}

// fastest judges the rows of a curve by the least time of other curves, which a row's log-time may
// exceed by margin.
func (f *evidence) fastest(c *curve, others []*curve, margin float64) []judgement {
	rows := f.blank(c)
	for i, p := range c.points {
		if !p.judged(f.cfg.MinSamples) {
			continue
		}
		top := newBest()
		for k, other := range others {
			if o, ok := other.at(p.m); ok && other.points[o].serves(f.cfg.MinSamples) && other.points[o].folded {
				e := other.points[o]
				top.add(k, -e.us.y, negated(e.without), negated(e.of))
			}
		}
		if top.point < 0 {
			continue
		}
		other := others[top.point]
		o, _ := other.at(p.m)
		e := other.points[o]
		f.hold(&rows[i], estimate{-top.estimate(), e.us.se, e.us.df}, margin)
		rows[i].against = other.against(o, rows[i].kept)
	}
	return rows
}

// elsewhere lists the curves of other kernels for the products of a curve, of those whose results are right.
func (f *evidence) elsewhere(c *curve) []*curve {
	var out []*curve
	for _, other := range f.products[productOf(c.series.Key)] {
		if other.series.Key.Kernel != c.series.Key.Kernel && !other.wrong() {
			out = append(out, other)
		}
	}
	return out
}

// bestElsewhere finds the series of another kernel that may be taken whose upper bound at M is
// least; nil when M was measured nowhere else.
func (f *evidence) bestElsewhere(c *curve, m int, takes func(*curve) bool) (*curve, int) {
	var best *curve
	at := -1
	for _, other := range f.elsewhere(c) {
		if !takes(other) {
			continue
		}
		if o, ok := other.at(m); ok && !math.IsInf(f.upper[other][o], 1) && (best == nil || f.upper[other][o] < f.upper[best][at]) {
			best, at = other, o
		}
	}
	return best, at
}

// attainable is the log of the microseconds that peak and bandwidth of a series, both
// known, allow an M.
func attainable(s results.Series, m int) float64 {
	memory := math.Log(s.Key.Bytes(m) / s.Bandwidth.Rate * 1e6)
	if s.Peak.Memory.Rate > 0 {
		return memory
	}
	return math.Max(math.Log(s.Key.FLOPs(m)/s.Peak.FLOPS*1e6), memory)
}

// leastTime is the log of the microseconds below which an M of a series was measured wrongly: what
// the peak allows, or reading once what lies in memory.
func leastTime(s results.Series, m int) (us float64, memoryBound bool) {
	us = math.Log(s.Key.FLOPs(m) / s.Peak.FLOPS * 1e6)
	// Where a file does not say its regime, operands may have sat in a cache.
	fromMemory := s.Key.Regime == results.Engine || s.Key.Regime == results.Cold || s.Key.Regime == "" && s.Bandwidth.Origin == ""
	if s.Bandwidth.Rate > 0 && fromMemory {
		if t := math.Log(s.Key.StoredBytes(m) / s.Bandwidth.Rate * 1e6); t > us {
			return t, true
		}
	}
	return us, false
}

// past explains rows of a series that are faster than they can be.
func past(s results.Series) func(*judgement) string {
	return func(j *judgement) string {
		p := j.curve.points[j.point]
		ceiling, memoryBound := leastTime(s, p.m)
		what := fmt.Sprintf("the %s peak of %s TFLOP/s", s.Peak.Origin, figure(s.Peak.FLOPS/1e12))
		if memoryBound {
			what = fmt.Sprintf("reading the %s at %s GB/s allows: they did not all come from memory", s.Key.Operation.Stored(), figure(s.Bandwidth.Rate/1e9))
		}
		return fmt.Sprintf("m%d took %s us, %s times as fast as %s%s", p.m, figure(math.Exp(p.seen.y)), figure(math.Exp(ceiling-p.seen.y)), what, likelyUnit(j.curve.tooFast()).text())
	}
}

// below explains rows of a series that are far slower than its ceilings allow.
func below(s results.Series) func(*judgement) string {
	return func(j *judgement) string {
		p := j.curve.points[j.point]
		flops, bytes := s.Key.FLOPs(p.m), s.Key.Bytes(p.m)
		attainable := attainable(s, p.m)
		if s.Peak.Memory.Rate > 0 {
			return fmt.Sprintf("m%d took %s us where the %s bandwidth allows %s us: %s of %s GB/s were reached, %.0f %%", p.m, figure(math.Exp(p.seen.y)),
				s.Bandwidth.Of, figure(math.Exp(attainable)), figure(bytes/math.Exp(p.seen.y)/1e3), figure(s.Bandwidth.Rate/1e9), 100*math.Exp(attainable-p.seen.y))
		}
		text := fmt.Sprintf("m%d took %s us where min(peak, intensity × bandwidth) allows %s us: ", p.m, figure(math.Exp(p.seen.y)), figure(math.Exp(attainable)))
		if math.Log(bytes/s.Bandwidth.Rate*1e6) >= attainable {
			return text + fmt.Sprintf("memory sets the limit, and %s of %s GB/s were reached, %.0f %%",
				figure(bytes/math.Exp(p.seen.y)/1e3), figure(s.Bandwidth.Rate/1e9), 100*math.Exp(attainable-p.seen.y))
		}
		return text + fmt.Sprintf("%s were reached, %.0f %%, and memory is not the limit",
			rates(flops/math.Exp(p.seen.y)*1e6, s.Peak.FLOPS), 100*math.Exp(attainable-p.seen.y))
	}
}

// roofline: MFU may be neither far below what compute and bandwidth allow, nor
// above what they can: that is an error of the measurement. Where memory alone bounds the
// operation, no rate is impossible, since a cache may have held the operands. Ceilings know no common
// clock, so observed time is held against them.
func (f *evidence) roofline(c *curve) []judgement {
	return f.ceilings(c, func(i int) (estimate, bool) {
		p := &c.points[i]
		return p.seen, p.judged(f.cfg.MinSamples)
	})
}

// ceilings holds the observed times of a curve's points against its ceilings, of those that seen is true of.
func (f *evidence) ceilings(c *curve, seen func(int) (estimate, bool)) []judgement {
	s := c.series
	cached := s.Bandwidth.Rate <= 0 || s.Key.Regime == results.Hot
	memory := s.Peak.Memory.Rate > 0
	if s.Peak.FLOPS <= 0 || memory && cached {
		return nil
	}
	rows := f.blank(c)
	r := f.cfg.Rules.Roofline
	tooFast, tooSlow := past(s), below(s)
	for i, p := range c.points {
		seen, ok := seen(i)
		if !ok {
			continue
		}
		j := &rows[i]
		half := f.half(seen)
		j.tested = true
		fast, sides := 1.0, 1.0
		j.kept = true
		if !memory {
			ceiling, _ := leastTime(s, p.m)
			limit := ceiling - math.Log1p(r.Tolerance)
			fast, sides = upperP((limit-seen.y)/seen.se, seen.df), 2
			j.p, j.bound, j.sign = math.Min(1, 2*fast), limit, -1
			j.broken, j.kept = seen.y+half < limit, seen.y-half >= limit
			over := ceiling - seen.y
			j.loss = Interval{lost(over + half), lost(over), lost(over - half)}
			j.cause, j.explain = MeasurementError, tooFast
		}
		if cached {
			continue
		}
		attainable := attainable(s, p.m)
		limit := attainable - math.Log(r.Fraction)
		slow := upperP((seen.y-limit)/seen.se, seen.df)
		keptBoth := j.kept && seen.y+half <= limit
		if slow < fast || memory {
			j.p, j.bound, j.sign = math.Min(1, sides*slow), limit, 1
			j.broken = seen.y-half > limit
			j.loss = Interval{lost(attainable - seen.y + half), lost(attainable - seen.y), lost(attainable - seen.y - half)}
			// Memory that is mostly idle is not what the kernel waits for.
			j.cause, j.explain = Implementation, tooSlow
		}
		j.kept = keptBoth
	}
	return rows
}
