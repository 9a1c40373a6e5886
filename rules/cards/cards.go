// Package cards compares the cards of one host that a run measured side by side.
package cards

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/results"
	"github.com/gemmaudit/gemmaudit/rules/cause"
	"github.com/gemmaudit/gemmaudit/rules/change"
	"github.com/gemmaudit/gemmaudit/rules/infer"
	"github.com/gemmaudit/gemmaudit/rules/stats"
)

// Comparison is the verdict on every card. Each case of a card is compared with the median of all cards of the same
// name; of two cards, with the other one.
type Comparison struct {
	// Threshold is the least relative difference that counts.
	Threshold float64 `json:"threshold"`
	FDR       float64 `json:"fdr"`
	Family    string  `json:"family"`
	// Cards are in order of their ids, Cases series by series.
	Cards []Verdict `json:"cards"`
	Cases []Case    `json:"cases"`
	// Outliers are the cards that are surely slower than the others, overall or in some cases. Any outlier
	// fails the gate.
	Outliers []string `json:"outliers"`
}

// Verdict compares one card with the others.
type Verdict struct {
	Device string `json:"device"`
	Name   string `json:"name"`
	Cases  int    `json:"cases"`
	// Ratio is the geometric mean of the card's times over the reference's, all at one clock; above 1 is
	// slower. Its bounds hold for all cards at once. Observed is the same ratio of the times as observed.
	Ratio    stats.Interval `json:"ratio"`
	Observed stats.Interval `json:"observed"`
	// Change is the verdict of Ratio on the whole card, or of Observed if only that one stands out.
	Change change.Kind `json:"change"`
	// Slower, Faster, Same and Undecided count cases.
	Slower    int `json:"slower"`
	Faster    int `json:"faster"`
	Same      int `json:"same"`
	Undecided int `json:"undecided"`
	// Cause is [cause.Clock] for a card that runs at a lower clock and matches the others at one clock. It is empty
	// for a card that is not an outlier.
	Cause cause.Kind `json:"cause,omitempty"`
	// Explanation is a sentence about an outlier.
	Explanation string `json:"explanation,omitempty"`
	// ClockMHz, PowerW and TempC are medians over the samples, 0 if unknown. Throttled is the share of
	// samples that were taken while throttled, and Throttle the most frequent reason.
	ClockMHz  float64          `json:"clock_mhz,omitempty"`
	PowerW    float64          `json:"power_w,omitempty"`
	TempC     float64          `json:"temp_c,omitempty"`
	Throttled float64          `json:"throttled,omitempty"`
	Throttle  kernels.Throttle `json:"throttle,omitempty"`
}

// Case is one case on one card.
type Case struct {
	Series    results.SeriesKey `json:"series"` // the card's
	M         int               `json:"m"`
	US        stats.Interval    `json:"us"`
	Ratio     stats.Interval    `json:"ratio"` // over the reference: above 1 is slower
	P         float64           `json:"p"`
	AdjustedP float64           `json:"p_adjusted"`
	Change    change.Kind       `json:"change"`
}

// Limits are the keys of the rules file that decide whether a card is an outlier: the threshold of cards, the false
// discovery rate, the confidence of intervals, and the least number of samples of a row that is compared.
type Limits struct {
	Threshold, FDR, Confidence float64
	MinSamples                 int
}

type row struct {
	curves []*infer.Curve
	points []int
}

// Compare compares the cards of one name with each other, at one clock and as observed; nil without two such cards.
func Compare(p *infer.Estimates, limits Limits) *Comparison {
	groups := map[string][]string{} // devices by product name
	grouped := map[string]bool{}
	var names []string
	for _, c := range p.Curves {
		id := c.Series.Key.Device
		spec := c.Spec
		if !spec.Kind.Facts().Card || spec.Name == "" {
			continue
		}
		if groups[spec.Name] == nil {
			names = append(names, spec.Name)
		}
		if !grouped[id] {
			grouped[id] = true
			groups[spec.Name] = append(groups[spec.Name], id)
		}
	}
	out := &Comparison{Threshold: limits.Threshold, FDR: limits.FDR, Cases: []Case{}, Outliers: []string{}}
	b := &bench{out: out, Estimates: p, limits: limits, curvesOf: map[string][]*infer.Curve{}}
	for _, c := range p.Curves {
		b.curvesOf[c.Series.Key.Device] = append(b.curvesOf[c.Series.Key.Device], c)
	}
	for _, name := range names {
		if devices := groups[name]; len(devices) > 1 {
			// cuda:10 comes after cuda:9.
			slices.SortFunc(devices, func(x, y string) int { return cmp.Or(len(x)-len(y), strings.Compare(x, y)) })
			b.group(name, devices)
		}
	}
	if len(out.Cards) == 0 {
		return nil
	}
	b.judge()
	return out
}

type bench struct {
	*infer.Estimates
	out      *Comparison
	limits   Limits
	tested   []int // positions in out.Cases
	p        []float64
	curvesOf map[string][]*infer.Curve   // by device
	ratios   map[string][]stats.Estimate // log ratios by card, at one clock
	doubt    map[string][]float64        // standard errors of bringing each card to that clock
	clock    float64                     // that clock in MHz; 0 if any card's clock is unknown
	seen     map[string][]stats.Estimate // as observed
}

func (b *bench) group(name string, devices []string) {
	b.clock = 0
	var clocks []float64
	for _, id := range devices {
		b.out.Cards = append(b.out.Cards, Verdict{Device: id, Name: name})
		if mhz := b.Clocks[id]; mhz > 0 {
			clocks = append(clocks, mhz)
		}
	}
	if len(clocks) == len(devices) {
		b.clock = stats.Median(clocks)
	}
	var order []results.SeriesKey
	curves := map[results.SeriesKey][]*infer.Curve{}
	in := map[string]bool{}
	for _, id := range devices {
		in[id] = true
	}
	for _, c := range b.Curves {
		key := c.Series.Key
		if !in[key.Device] {
			continue
		}
		key.Device = ""
		if curves[key] == nil {
			order = append(order, key)
		}
		curves[key] = append(curves[key], c)
	}
	for _, key := range order {
		rows := map[int]*row{}
		var ms []int
		for _, c := range curves[key] {
			for i, pt := range c.Points {
				if pt.Inferred || !pt.Judged(b.limits.MinSamples) {
					continue
				}
				if rows[pt.M] == nil {
					rows[pt.M] = &row{}
					ms = append(ms, pt.M)
				}
				rows[pt.M].curves, rows[pt.M].points = append(rows[pt.M].curves, c), append(rows[pt.M].points, i)
			}
		}
		slices.Sort(ms)
		for _, m := range ms {
			if len(rows[m].curves) > 1 {
				b.row(rows[m])
			}
		}
	}
}

func (b *bench) row(r *row) {
	threshold := math.Log1p(b.limits.Threshold)
	times, seen, doubts := make([]stats.Estimate, len(r.curves)), make([]stats.Estimate, len(r.curves)), make([]float64, len(r.curves))
	for k, c := range r.curves {
		pt := c.Points[r.points[k]]
		times[k], seen[k] = pt.US, pt.Seen
		if b.clock > 0 && c.Clocked {
			off := math.Log(c.Reference / b.clock)
			times[k].Y += pt.Elastic.Beta * off
			doubts[k] = math.Abs(off) * pt.Elastic.SE
			times[k].SE = math.Hypot(times[k].SE, doubts[k])
		}
	}
	for k, c := range r.curves {
		pt := c.Points[r.points[k]]
		id := c.Series.Key.Device
		e := besides(times, k)
		if b.ratios == nil {
			b.ratios, b.seen, b.doubt = map[string][]stats.Estimate{}, map[string][]stats.Estimate{}, map[string][]float64{}
		}
		b.ratios[id] = append(b.ratios[id], e)
		b.seen[id] = append(b.seen[id], besides(seen, k))
		b.doubt[id] = append(b.doubt[id], doubts[k])
		cc := Case{Series: c.Series.Key, M: pt.M, US: pt.US.Interval(b.limits.Confidence, b.Quantiles),
			Ratio: e.Interval(b.limits.Confidence, b.Quantiles),
			P:     1, AdjustedP: 1, Change: change.Open}
		if e.SE == 0 && e.Y == 0 {
			cc.Change = change.Same // this card is the median
		} else {
			cc.P = e.Beyond(threshold)
			b.tested, b.p = append(b.tested, len(b.out.Cases)), append(b.p, cc.P)
		}
		b.out.Cases = append(b.out.Cases, cc)
	}
}

// besides is the log of card k's time over the reference: the median of all cards, which one odd card can't
// move, or the other one of two. For an even number of cards the median lies between two cards, possibly
// including card k.
func besides(all []stats.Estimate, k int) stats.Estimate {
	if len(all) == 2 {
		return stats.Difference(all[k], all[1-k])
	}
	order := make([]int, len(all))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(i, j int) int {
		switch {
		case all[i].Y < all[j].Y:
			return -1
		case all[i].Y > all[j].Y:
			return 1
		}
		return 0
	})
	upper := order[len(order)/2]
	if len(order)%2 == 1 {
		if upper == k {
			return stats.Estimate{}
		}
		return stats.Difference(all[k], all[upper])
	}
	lower := order[len(order)/2-1]
	between := stats.Difference(all[upper], all[lower])
	if k == upper || k == lower {
		between.SE, between.Open = between.SE/2, between.Open/2
		if between.Y /= 2; k == lower {
			between.Y = -between.Y
		}
		return between
	}
	middle := stats.Estimate{Y: (all[upper].Y + all[lower].Y) / 2, SE: between.SE / 2, DF: between.DF, Open: between.Open / 2}
	return stats.Difference(all[k], middle)
}

func (b *bench) judge() {
	out, limits := b.out, b.limits
	for i, adjusted := range stats.AdjustP(b.p) {
		c := &out.Cases[b.tested[i]]
		c.AdjustedP = adjusted
		if c.Change = change.Within(c.Ratio, limits.Threshold); (c.Change == change.Slower || c.Change == change.Faster) &&
			adjusted > limits.FDR {
			c.Change = change.Open
		}
	}
	out.Family = fmt.Sprintf("Benjamini–Hochberg at %g over %d comparisons of cases; bounds of the means hold for all %d cards together",
		limits.FDR, len(b.tested), len(out.Cards))
	all := 1 - (1-limits.Confidence)/float64(len(out.Cards))
	changes := map[string]map[change.Kind]int{}
	for i := range out.Cases {
		id := out.Cases[i].Series.Device
		if changes[id] == nil {
			changes[id] = map[change.Kind]int{}
		}
		changes[id][out.Cases[i].Change]++
	}
	for i := range out.Cards {
		v := &out.Cards[i]
		v.Ratio, v.Observed = stats.GeometricMean(b.ratios[v.Device], all), stats.GeometricMean(b.seen[v.Device], all)
		v.Change = change.Open
		for differs, n := range changes[v.Device] {
			v.Cases += n
			switch differs {
			case change.Slower:
				v.Slower += n
			case change.Faster:
				v.Faster += n
			case change.Same:
				v.Same += n
			default:
				v.Undecided += n
			}
		}
		if v.Cases == 0 {
			continue
		}
		// The error of the clock correction is common to all cases, so it does not average out.
		v.Ratio = stats.Widen(v.Ratio.Log(), stats.Mean(b.doubt[v.Device]), all).Exp()
		v.Change = change.Within(v.Ratio, limits.Threshold)
		if seen := change.Within(v.Observed, limits.Threshold); (seen == change.Slower || seen == change.Faster) && v.Change != seen {
			v.Change, v.Cause = seen, cause.Clock
		}
		b.condition(v)
	}
	for i := range out.Cards {
		v := &out.Cards[i]
		b.explain(v)
		if v.Change == change.Slower || v.Slower > 0 {
			out.Outliers = append(out.Outliers, v.Device)
		}
	}
}

func (b *bench) condition(v *Verdict) {
	var clock, power, temp []float64
	samples, throttled := 0, map[kernels.Throttle]int{}
	for _, c := range b.curvesOf[v.Device] {
		for _, r := range c.Series.Rows {
			for _, s := range r.Samples {
				samples++
				for _, q := range []struct {
					to *[]float64
					v  float64
				}{{&clock, s.ClockMHz}, {&power, s.PowerW}, {&temp, s.TempC}} {
					if q.v > 0 {
						*q.to = append(*q.to, q.v)
					}
				}
				if s.Throttle != "" {
					throttled[s.Throttle]++
				}
			}
		}
	}
	known := func(values []float64) float64 {
		if len(values) == 0 {
			return 0
		}
		return stats.Median(values)
	}
	v.ClockMHz, v.PowerW, v.TempC = known(clock), known(power), known(temp)
	count, most := 0, 0
	for why, n := range throttled {
		count += n
		if n > most || n == most && why < v.Throttle {
			most, v.Throttle = n, why
		}
	}
	if samples > 0 {
		v.Throttled = float64(count) / float64(samples)
	}
}

func (b *bench) explain(v *Verdict) {
	if v.Change != change.Slower && v.Change != change.Faster && v.Slower == 0 {
		return
	}
	others := "the median card"
	if len(b.out.Cards) == 2 {
		others = "the other card"
	}
	words := []string{fmt.Sprintf("%s takes %.3f [%.3f, %.3f] times as long as %s", v.Device, v.Observed.Mid, v.Observed.Lo, v.Observed.Hi,
		others)}
	if v.Slower > 0 {
		words = append(words, fmt.Sprintf("%d of %d cases are surely slower", v.Slower, v.Cases))
	}
	v.Cause = cmp.Or(v.Cause, cause.Unknown)
	if v.ClockMHz > 0 {
		words = append(words,
			fmt.Sprintf("%.3f [%.3f, %.3f] times at one clock; its own is %.0f MHz", v.Ratio.Mid, v.Ratio.Lo, v.Ratio.Hi, v.ClockMHz))
	}
	if v.PowerW > 0 && v.TempC > 0 {
		words = append(words, fmt.Sprintf("%.0f W, %.0f °C", v.PowerW, v.TempC))
	}
	if v.Throttled > 0 {
		words = append(words, fmt.Sprintf("throttled in %.0f %% of the samples (%s)", 100*v.Throttled, v.Throttle))
	}
	v.Explanation = strings.Join(words, "; ")
}
