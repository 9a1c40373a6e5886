package rules

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/results"
)

// Cards compares the cards of one host that a run measured side by side: what is
// sold as the same should take the same time. Each case of each card is held
// against the median of all cards of the same name, of two against the other one.
type Cards struct {
	// Threshold is the share by which a time has to differ to count.
	Threshold float64 `json:"threshold"`
	FDR       float64 `json:"fdr"`
	Family    string  `json:"family"`
	// Cards are in order of their ids, Cases series by series.
	Cards []CardVerdict `json:"cards"`
	Cases []CardCase    `json:"cases"`
	// Outliers are the cards that are surely slower than the others, as a whole or in
	// some cases; then the gate fails.
	Outliers []string `json:"outliers"`
}

// CardVerdict is one card beside the others.
type CardVerdict struct {
	Device string `json:"device"`
	Name   string `json:"name"`
	Cases  int    `json:"cases"`
	// Ratio is the geometric mean of the card's times over the reference's, all at one
	// clock, with bounds that hold for all cards at once: above 1 is slower. Observed is the
	// same of the times as they were observed.
	Ratio    Interval `json:"ratio"`
	Observed Interval `json:"observed"`
	// Change is what Ratio says of the card as a whole, or Observed where that
	// alone stands out.
	Change Change `json:"change"`
	// Slower, Faster, Same and Undecided count cases.
	Slower    int `json:"slower"`
	Faster    int `json:"faster"`
	Same      int `json:"same"`
	Undecided int `json:"undecided"`
	// Cause is [Clock] for a card that is as fast as the others at one clock and gets a
	// lower one, empty for one that does not stand out.
	Cause Cause `json:"cause,omitempty"`
	// Explanation is a sentence on a card that stands out.
	Explanation string `json:"explanation,omitempty"`
	// ClockMHz, PowerW and TempC are medians over the samples, 0 when unknown.
	// Throttled is the share of the samples that were taken while throttled, and
	// Throttle the reason seen most often.
	ClockMHz  float64          `json:"clock_mhz,omitempty"`
	PowerW    float64          `json:"power_w,omitempty"`
	TempC     float64          `json:"temp_c,omitempty"`
	Throttled float64          `json:"throttled,omitempty"`
	Throttle  kernels.Throttle `json:"throttle,omitempty"`
}

// CardCase is one case on one card.
type CardCase struct {
	Series    results.SeriesKey `json:"series"` // the card's
	M         int               `json:"m"`
	US        Interval          `json:"us"`
	Ratio     Interval          `json:"ratio"` // over the reference: above 1 is slower
	P         float64           `json:"p"`
	AdjustedP float64           `json:"p_adjusted"`
	Change    Change            `json:"change"`
}

// cardRow is the same case on every card that measured it.
type cardRow struct {
	curves []*curve
	points []int
}

// compareCards compares the cards of a run; nil when there are no two of a name.
func compareCards(p *prepared, cfg Config) *Cards {
	groups := map[string][]string{} // devices by what they are sold as
	grouped := map[string]bool{}
	var names []string
	for _, c := range p.curves {
		id := c.series.Key.Device
		spec := c.spec
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
	out := &Cards{Threshold: cfg.Cards.Threshold, FDR: cfg.FDR, Cases: []CardCase{}, Outliers: []string{}}
	b := &cardBench{out: out, prepared: p, cfg: cfg, curvesOf: map[string][]*curve{}}
	for _, c := range p.curves {
		b.curvesOf[c.series.Key.Device] = append(b.curvesOf[c.series.Key.Device], c)
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

// cardBench collects what the comparison of cards needs.
type cardBench struct {
	*prepared
	out      *Cards
	cfg      Config
	tested   []int // positions in out.Cases
	p        []float64
	curvesOf map[string][]*curve   // by device
	ratios   map[string][]estimate // log ratios by card, at one clock
	doubt    map[string][]float64  // what bringing each to that clock leaves open, as standard errors
	clock    float64               // that one clock, in MHz; 0 where a card's is unknown
	seen     map[string][]estimate // as observed
}

// group compares the cards of one name, case by case.
func (b *cardBench) group(name string, devices []string) {
	b.clock = 0
	var clocks []float64
	for _, id := range devices {
		b.out.Cards = append(b.out.Cards, CardVerdict{Device: id, Name: name})
		if mhz := b.clocks[id]; mhz > 0 {
			clocks = append(clocks, mhz)
		}
	}
	if len(clocks) == len(devices) {
		b.clock = median(clocks)
	}
	var order []results.SeriesKey
	curves := map[results.SeriesKey][]*curve{}
	in := map[string]bool{}
	for _, id := range devices {
		in[id] = true
	}
	for _, c := range b.curves {
		key := c.series.Key
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
		rows := map[int]*cardRow{}
		var ms []int
		for _, c := range curves[key] {
			for i, pt := range c.points {
				if pt.inferred || !pt.judged(b.cfg.MinSamples) {
					continue
				}
				if rows[pt.m] == nil {
					rows[pt.m] = &cardRow{}
					ms = append(ms, pt.m)
				}
				rows[pt.m].curves, rows[pt.m].points = append(rows[pt.m].curves, c), append(rows[pt.m].points, i)
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

// row compares one case on all cards.
func (b *cardBench) row(r *cardRow) {
	threshold := math.Log1p(b.cfg.Cards.Threshold)
	times, seen, doubts := make([]estimate, len(r.curves)), make([]estimate, len(r.curves)), make([]float64, len(r.curves))
	for k, c := range r.curves {
		pt := c.points[r.points[k]]
		times[k], seen[k] = pt.us, pt.seen
		if b.clock > 0 && c.clocked {
			off := math.Log(c.reference / b.clock)
			times[k].y += pt.elastic.beta * off
			doubts[k] = math.Abs(off) * pt.elastic.se
			times[k].se = math.Hypot(times[k].se, doubts[k])
		}
	}
	for k, c := range r.curves {
		pt := c.points[r.points[k]]
		id := c.series.Key.Device
		e := besides(times, k)
		if b.ratios == nil {
			b.ratios, b.seen, b.doubt = map[string][]estimate{}, map[string][]estimate{}, map[string][]float64{}
		}
		b.ratios[id] = append(b.ratios[id], e)
		b.seen[id] = append(b.seen[id], besides(seen, k))
		b.doubt[id] = append(b.doubt[id], doubts[k])
		cc := CardCase{Series: c.series.Key, M: pt.m, US: pt.us.interval(b.cfg.Confidence, b.q), Ratio: e.interval(b.cfg.Confidence, b.q), P: 1, AdjustedP: 1, Change: Open}
		if e.se == 0 && e.y == 0 {
			cc.Change = Same // it is the median
		} else {
			// Two one-sided tests; the smaller counts twice.
			cc.P = math.Min(1, 2*math.Min(upperP((e.y-threshold)/e.se, e.df), upperP((-e.y-threshold)/e.se, e.df)))
			b.tested, b.p = append(b.tested, len(b.out.Cases)), append(b.p, cc.P)
		}
		b.out.Cases = append(b.out.Cases, cc)
	}
}

// besides is the log of a card's time over the reference: the median of all cards,
// which one odd card can't move, or of two the other one. The median of an even
// number lies between two cards, of which the card itself may be one.
func besides(all []estimate, k int) estimate {
	if len(all) == 2 {
		return difference(all[k], all[1-k])
	}
	order := make([]int, len(all))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(i, j int) int {
		switch {
		case all[i].y < all[j].y:
			return -1
		case all[i].y > all[j].y:
			return 1
		}
		return 0
	})
	upper := order[len(order)/2]
	if len(order)%2 == 1 {
		if upper == k {
			return estimate{}
		}
		return difference(all[k], all[upper])
	}
	lower := order[len(order)/2-1]
	between := difference(all[upper], all[lower])
	if k == upper || k == lower {
		between.se /= 2
		if between.y /= 2; k == lower {
			between.y = -between.y
		}
		return between
	}
	middle := estimate{(all[upper].y + all[lower].y) / 2, between.se / 2, between.df}
	return difference(all[k], middle)
}

// difference is a over b, in logs.
func difference(a, b estimate) estimate {
	return estimate{a.y - b.y, math.Hypot(a.se, b.se), welch(a, b)}
}

// judge decides on all cases together, then on the cards.
func (b *cardBench) judge() {
	out, cfg := b.out, b.cfg
	for i, adjusted := range benjaminiHochberg(b.p) {
		c := &out.Cases[b.tested[i]]
		c.AdjustedP = adjusted
		if c.Change = within(c.Ratio, cfg.Cards.Threshold); (c.Change == Slower || c.Change == Faster) && adjusted > cfg.FDR {
			c.Change = Open
		}
	}
	out.Family = fmt.Sprintf("Benjamini–Hochberg at %g over %d comparisons of cases; bounds of the cards' means hold for all %d cards at once", cfg.FDR, len(b.tested), len(out.Cards))
	all := 1 - (1-cfg.Confidence)/float64(len(out.Cards))
	changes := map[string]map[Change]int{}
	for i := range out.Cases {
		id := out.Cases[i].Series.Device
		if changes[id] == nil {
			changes[id] = map[Change]int{}
		}
		changes[id][out.Cases[i].Change]++
	}
	for i := range out.Cards {
		v := &out.Cards[i]
		v.Ratio, v.Observed = geomean(b.ratios[v.Device], all), geomean(b.seen[v.Device], all)
		v.Change = Open
		for change, n := range changes[v.Device] {
			v.Cases += n
			switch change {
			case Slower:
				v.Slower += n
			case Faster:
				v.Faster += n
			case Same:
				v.Same += n
			default:
				v.Undecided += n
			}
		}
		if v.Cases == 0 {
			continue
		}
		// What is not known of how times follow the clock may be off by as much in every case.
		v.Ratio = widened(v.Ratio.log(), meanOf(b.doubt[v.Device]), all).exp()
		v.Change = within(v.Ratio, cfg.Cards.Threshold)
		if seen := within(v.Observed, cfg.Cards.Threshold); (seen == Slower || seen == Faster) && v.Change != seen {
			v.Change, v.Cause = seen, Clock
		}
		b.condition(v)
	}
	for i := range out.Cards {
		v := &out.Cards[i]
		b.explain(v)
		if v.Change == Slower || v.Slower > 0 {
			out.Outliers = append(out.Outliers, v.Device)
		}
	}
}

// condition sums up the state that a card was in during its samples.
func (b *cardBench) condition(v *CardVerdict) {
	var clock, power, temp []float64
	samples, throttled := 0, map[kernels.Throttle]int{}
	for _, c := range b.curvesOf[v.Device] {
		for _, r := range c.series.Rows {
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
		return median(values)
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

// explain says of a card that stands out what is known of why.
func (b *cardBench) explain(v *CardVerdict) {
	if v.Change != Slower && v.Change != Faster && v.Slower == 0 {
		return
	}
	others := "the median of the cards"
	if len(b.out.Cards) == 2 {
		others = "the other card"
	}
	words := []string{fmt.Sprintf("%s takes %.3f [%.3f, %.3f] times as long as %s", v.Device, v.Observed.Mid, v.Observed.Lo, v.Observed.Hi, others)}
	if v.Slower > 0 {
		words = append(words, fmt.Sprintf("%d of %d cases are surely slower", v.Slower, v.Cases))
	}
	v.Cause = cmp.Or(v.Cause, Unknown)
	if v.ClockMHz > 0 {
		words = append(words, fmt.Sprintf("%.3f [%.3f, %.3f] times at one clock; its own is %.0f MHz", v.Ratio.Mid, v.Ratio.Lo, v.Ratio.Hi, v.ClockMHz))
	}
	if v.PowerW > 0 && v.TempC > 0 {
		words = append(words, fmt.Sprintf("%.0f W, %.0f °C", v.PowerW, v.TempC))
	}
	if v.Throttled > 0 {
		words = append(words, fmt.Sprintf("throttled in %.0f %% of the samples (%s)", 100*v.Throttled, v.Throttle))
	}
	v.Explanation = strings.Join(words, "; ")
}
