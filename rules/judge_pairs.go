package rules

import (
	"fmt"
	"math"
	"slices"

	"github.com/gemmaudit/gemmaudit/results"
)

// parity: a data type may not take more than its ratio of another's time at the
// same shape and kernel.
func (f *family) parity(c *curve) []judgement {
	rows := f.blank(c)
	for _, pair := range f.cfg.Rules.Parity.Pairs {
		if pair.DType != c.series.Key.DType {
			continue
		}
		key := c.series.Key
		key.DType = pair.Than
		for _, other := range f.curves {
			if other.series.Key != key {
				continue
			}
			for i, p := range c.points {
				o, ok := other.at(p.m)
				if !ok || !p.judged(f.cfg.MinSamples) || !other.points[o].judged(f.cfg.MinSamples) {
					continue
				}
				e := other.points[o].us
				// The partner is given, not chosen: the errors of both simply add.
				se, df := math.Hypot(p.us.se, e.se), math.Min(p.us.df, e.df)
				half := f.q.upper((1-f.cfg.Confidence)/2, df) * se
				margin := math.Log(pair.Ratio)
				d := p.us.y - e.y
				pv := upperP((d-margin)/se, df)
				if rows[i].tested && rows[i].p <= pv {
					continue // of several partners the one that accuses most, paid for below
				}
				rows[i] = judgement{
					curve: c, point: i, tested: true, sign: 1, p: pv,
					broken: d-half > margin, kept: d+half <= margin, bound: margin,
					against: other.series.Rows[other.points[o].row].Case,
					loss:    Interval{lost(-d + half), lost(-d), lost(-d - half)},
				}
			}
		}
	}
	// A row with several partners was tested as often.
	partners := 0
	for _, pair := range f.cfg.Rules.Parity.Pairs {
		if pair.DType == c.series.Key.DType {
			partners++
		}
	}
	for i := range rows {
		rows[i].p = math.Min(1, rows[i].p*float64(max(partners, 1)))
	}
	return rows
}

// alternative: no other kernel of the device may be faster at the same product.
func (f *family) alternative(c *curve) []judgement {
	rows := f.blank(c)
	if slices.Contains(f.cfg.Rules.Alternative.Exclude, c.series.Key.Kernel) {
		return rows
	}
	margin := math.Log1p(f.cfg.Rules.Alternative.Margin)
	for i, p := range c.points {
		if !p.judged(f.cfg.MinSamples) {
			continue
		}
		if other, o := f.bestElsewhere(c, p.m); other != nil {
			f.faster(&rows[i], other.series.Rows[other.points[o].row].Case, f.upper[other][o], other.points[o].us.y, margin)
		}
	}
	return rows
}

// bestElsewhere finds the series of another kernel whose upper bound at M is
// least; nil when M was measured nowhere else.
func (f *family) bestElsewhere(c *curve, m int) (*curve, int) {
	key := c.series.Key
	var best *curve
	at := -1
	for _, other := range f.curves {
		k := other.series.Key
		if k.Kernel == key.Kernel {
			continue
		}
		if k.Kernel = key.Kernel; k != key {
			continue
		}
		if o, ok := other.at(m); ok && !math.IsInf(f.upper[other][o], 1) && (best == nil || f.upper[other][o] < f.upper[best][at]) {
			best, at = other, o
		}
	}
	return best, at
}

// roofline: MFU may be neither far below what compute and bandwidth allow, nor
// above what they can: that is an error of the measurement.
func (f *family) roofline(c *curve) []judgement {
	rows := f.blank(c)
	s := c.series
	if s.Peak.FLOPS <= 0 {
		return rows
	}
	r := f.cfg.Rules.Roofline
	for i, p := range c.points {
		if !p.judged(f.cfg.MinSamples) {
			continue
		}
		j := &rows[i]
		shape := s.Rows[p.row].Case.Shape()
		half := f.half(p.us)
		j.tested = true
		// Too fast: past the peak, or past reading the weights once.
		ceiling, weightBound := math.Log(shape.FLOPs()/s.Peak.FLOPS*1e6), false
		if s.ReadBandwidth > 0 && s.Key.Regime != results.Hot {
			weights := float64(shape.K) * float64(shape.N) * float64(s.Key.DType.Size())
			if t := math.Log(weights / s.ReadBandwidth * 1e6); t > ceiling {
				ceiling, weightBound = t, true
			}
		}
		limit := ceiling - math.Log1p(r.Tolerance)
		fast := upperP((limit-p.us.y)/p.us.se, p.us.df)
		j.p, j.bound, j.sign = math.Min(1, 2*fast), limit, -1
		j.broken, j.kept = p.us.y+half < limit, p.us.y-half >= limit
		over := ceiling - p.us.y
		j.loss = Interval{lost(over + half), lost(over), lost(over - half)}
		j.cause = MeasurementError
		j.explain = func() string {
			what := fmt.Sprintf("the %s peak of %s TFLOP/s", s.Peak.Origin, figure(s.Peak.FLOPS/1e12))
			if weightBound {
				what = fmt.Sprintf("reading the weights at %s GB/s allows: they did not all come from memory", figure(s.ReadBandwidth/1e9))
			}
			return fmt.Sprintf("m%d took %s us, %.2f times as fast as %s", p.m, figure(math.Exp(p.us.y)), math.Exp(over), what)
		}
		if s.ReadBandwidth <= 0 || s.Key.Regime == results.Hot {
			continue
		}
		attainable := math.Max(math.Log(shape.FLOPs()/s.Peak.FLOPS*1e6), math.Log(shape.Bytes(s.Key.DType)/s.ReadBandwidth*1e6))
		limit = attainable - math.Log(r.Fraction)
		slow := upperP((p.us.y-limit)/p.us.se, p.us.df)
		keptBoth := j.kept && p.us.y+half <= limit
		if slow < fast {
			j.p, j.bound, j.sign = math.Min(1, 2*slow), limit, 1
			j.broken = p.us.y-half > limit
			j.loss = Interval{lost(attainable - p.us.y + half), lost(attainable - p.us.y), lost(attainable - p.us.y - half)}
			memory := math.Log(shape.Bytes(s.Key.DType)/s.ReadBandwidth*1e6) >= attainable
			// Memory that is mostly idle is not what the kernel waits for.
			j.cause = Implementation
			j.explain = func() string {
				text := fmt.Sprintf("m%d took %s us where min(peak, intensity × bandwidth) allows %s us: ", p.m, figure(math.Exp(p.us.y)), figure(math.Exp(attainable)))
				if memory {
					return text + fmt.Sprintf("memory sets the limit, and %s of %s GB/s were reached, %.0f %%",
						figure(shape.Bytes(s.Key.DType)/math.Exp(p.us.y)/1e3), figure(s.ReadBandwidth/1e9), 100*math.Exp(attainable-p.us.y))
				}
				return text + fmt.Sprintf("%s were reached, %.0f %%, and memory is not the limit",
					rates(shape.FLOPs()/math.Exp(p.us.y)*1e6, s.Peak.FLOPS), 100*math.Exp(attainable-p.us.y))
			}
		}
		j.kept = keptBoth
	}
	return rows
}
