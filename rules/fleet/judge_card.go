package fleet

import (
	"fmt"
	"math"
	"slices"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/rules/stats"
)

// contrastLevel is the p-value below which a card is slower in a family than elsewhere.
const contrastLevel = 0.01

func (a *answers) card(i, best int, p, adjusted float64, s Settings) Card {
	m := &a.cards[i]
	last := a.processes[m.processes[len(m.processes)-1]]
	peers := a.groups[m.group].peers
	c := Card{Card: m.id, Host: last.host, Device: last.device, Model: a.name, Labels: last.labels, Group: m.group, Verdict: Fine, P: p,
		AdjustedP:  adjusted,
		Conditions: a.conditions([]int{i}), Since: a.told(i)}
	cases := 0
	for _, at := range m.processes {
		c.Runs = append(c.Runs, a.processes[at].path)
		cases = max(cases, a.start[at+1]-a.start[at])
	}
	c.Cases = cases
	common, sustained := a.whole.common.cards[i], a.whole.sustained.cards[i]
	c.Common, c.Sustained = common.interval(), sustained.interval()
	c.Peers = common.peers
	if peers != m.group {
		c.Confounds = differing(a.groups[peers].factors, a.groups[m.group].factors)
	}
	var others []int
	for k := range a.cards {
		if k != i && a.sets[k] == a.sets[i] {
			others = append(others, k)
		}
	}
	c.PeerConditions = a.conditions(others)
	if a.earlier != nil && a.earlier.common.cards[i].known {
		x := a.earlier.common.cards[i].interval()
		c.Earlier = &x
	}
	if !common.known && !sustained.known && c.Earlier == nil {
		c.Verdict, c.Reason = Unjudged, "no other card of its model to compare it with"
		if !slices.ContainsFunc(m.processes, func(p int) bool { return !a.lonely[p] }) {
			c.Reason = fmt.Sprintf("no peer was measured near its time, %s, so it can't be separated from drift of the fleet; check its "+
				"clock",
				when(last.from).Format("2006-01-02 15:04"))
		}
		return c
	}
	c.Loss, c.Of = c.Common, "all cases at the common clock"
	if !common.known && c.Earlier != nil {
		c.Loss, c.Of = *c.Earlier, "all cases at the common clock, over the same card in the baseline"
	}
	if best < 0 || adjusted > s.Level {
		c.fine(a.modes[peers], a.slower[i])
		a.limited(i, &c, s)
		return c
	}
	limits, software := divided(c.Confounds, last.limits)
	f := facts{common: c.Common, sustained: c.Sustained, memory: math.NaN(), rest: math.NaN(), peers: common.peers, own: c.Conditions,
		others: c.PeerConditions,
		limits: limits}
	a.place(i, a.questions[best], &f, &c)
	least := s.Watch
	if f.link {
		least = math.Max(least, leastLink)
	}
	if c.Loss.Mid-1 < least {
		c.Loss, c.Of = c.Common, "all cases at the common clock"
		c.fine(a.modes[peers], a.slower[i])
		return c
	}
	c.Kind, c.Reason = f.tell(c.Loss)
	if c.Verdict = Watch; c.Loss.Lo-1 >= s.Drain {
		c.Verdict = Drain
	}
	if len(software) > 0 {
		c.Verdict = Watch
		c.Reason += "; confounded: " + diffText(software)
	}
	if c.Since != nil && c.Since.Ratio.Mid > 1 {
		c.Reason += fmt.Sprintf("; since its run of %s", c.Since.Time.Format("2006-01-02 15:04"))
	}
	return c
}

// place finds where a card is slow, given the most significant question.
func (a *answers) place(i int, q question, f *facts, c *Card) {
	common, sustained := a.whole.common.cards[i], a.whole.sustained.cards[i]
	if q.earlier {
		c.Loss, c.Of = q.effects.cards[i].interval(), "all cases at the common clock, over the same card in the baseline"
		f.common, f.against = c.Loss, "itself in the baseline"
		if !q.sustained {
			f.sustained = stats.Interval{}
		} else {
			f.sustained, f.common = c.Loss, a.earlier.common.cards[i].interval()
			c.Of = "all cases in sustained time, over the same card in the baseline"
		}
		return
	}
	if q.link {
		f.link = true
		c.Loss, c.Of = q.effects.cards[i].interval(), "copies from the host"
		return
	}
	// A larger loss in sustained time than at the common clock points to the clock.
	if sustained.known && sustained.dev-math.Max(0, common.dev) > math.Max(0, common.dev) && (q.sustained || sustained.p < common.p) {
		c.Loss, c.Of = sustained.interval(), "all cases in sustained time"
		return
	}
	// The widest family that is slow alone explains it.
	for k, other := range a.questions {
		if other.family < 0 {
			continue
		}
		x := other.effects.cards[i]
		family := a.families[other.family]
		many := 1.0
		if !family.memory {
			many = float64(len(a.families))
		}
		if !x.known || x.dev <= 0 || x.p*many > contrastLevel {
			continue
		}
		own, rest := a.inFamily(other.family).cards[i], a.outside(other.family, i)
		if !own.known || own.dev <= 0 || rest > own.dev/2 {
			continue
		}
		// If memory and a kernel both explain it, the more significant one counts.
		if family.memory && a.clearer(i, k) {
			continue
		}
		c.Loss = own.interval()
		if family.memory {
			f.memory, f.rest = own.dev, rest
			c.Of = "cases in which memory binds, at the common clock"
		} else {
			f.family = family.name
			c.Of = family.name + " at the common clock"
		}
		return
	}
}

// clearer reports whether a card stands out far more in a kernel than in memory-bound cases.
func (a *answers) clearer(card, memory int) bool {
	m := a.questions[memory]
	for _, q := range a.questions {
		if q.family < 0 || a.families[q.family].memory {
			continue
		}
		x := q.effects.cards[card]
		if x.known && x.dev > 0 && x.p*float64(len(a.families)) < contrastLevel && x.dev > 1.5*m.effects.cards[card].dev {
			return true
		}
	}
	return false
}

// limited gives watch to a fine card if its whole group is slower than the largest one and differs only in
// limits, which users can reset.
func (a *answers) limited(i int, c *Card, s Settings) {
	g, largest := a.cards[i].group, 0
	for k := range a.groups {
		if len(a.groups[k].cards) > len(a.groups[largest].cards) {
			largest = k
		}
	}
	if c.Verdict != Fine || g == largest || a.groups[g].peers != g {
		return
	}
	last := a.processes[a.cards[i].processes[len(a.cards[i].processes)-1]]
	x := a.confound(g, largest)
	limits, software := divided(x.Factors, last.limits)
	if len(limits) == 0 || len(software) > 0 || x.Sustained.Lo-1 < s.Watch {
		return
	}
	c.Verdict, c.Kind, c.Confounds = Watch, Clock, limits
	for _, d := range limits {
		if d.Name == kernels.PowerLimit {
			c.Kind = Power
		}
	}
	c.Loss, c.Of = x.Sustained, "all cases in sustained time, of its group over the largest one"
	c.Reason = fmt.Sprintf("like the %d cards with its limits, which are %s than %d others in sustained time: %s", len(a.groups[g].cards),
		slowerText(x.Sustained),
		len(a.groups[largest].cards), diffText(limits))
}

// A card in the slower mode gets watch.
func (c *Card) fine(modes *Modes, slower bool) {
	c.Verdict = Fine
	if slower && modes != nil {
		c.Verdict, c.Kind = Watch, Mode
		c.Loss, c.Of = stats.Interval{Lo: modes.Ratio, Mid: modes.Ratio, Hi: modes.Ratio}, "the slower mode over the faster one"
		c.Reason = fmt.Sprintf("one of %d cards that take %s longer than %d others of the same model and software", modes.Slower,
			shareText(modes.Ratio-1), modes.Faster)
		if modes.With != "" {
			c.Reason += "; correlates with: " + modes.With
		}
		return
	}
	switch c.Peers {
	case 0:
		c.Reason = "like itself in the baseline"
	case 1:
		c.Reason = "like its peer"
	default:
		c.Reason = fmt.Sprintf("like its %d peers", c.Peers)
	}
	if c.Since != nil {
		word := "slower"
		if c.Since.Ratio.Mid < 1 {
			word = "faster"
		}
		c.Reason += fmt.Sprintf("; %s than itself before %s, by %s", word, c.Since.Time.Format("2006-01-02 15:04"),
			shareText(math.Abs(c.Since.Ratio.Mid-1)))
	}
}

func (e effect) interval() stats.Interval {
	if !e.known {
		return stats.Interval{}
	}
	return ratio(e.dev, e.se, math.Max(1, e.df))
}

func (a *answers) conditions(cards []int) Conditions {
	var clock, power, temp, throttled, read, link []float64
	reasons := map[kernels.ThrottleReason]float64{}
	n := 0.0
	for _, c := range cards {
		for _, p := range a.cards[c].processes {
			if !a.used[p] {
				continue
			}
			n++
			x := a.processes[p].conditions
			throttled = append(throttled, x.Throttled)
			appendKnown(&clock, x.ClockMHz)
			appendKnown(&power, x.PowerW)
			appendKnown(&temp, x.TempC)
			appendKnown(&read, x.ReadBandwidth)
			appendKnown(&link, x.LinkBandwidth)
			for reason, share := range x.Reasons {
				reasons[reason] += share
			}
		}
	}
	out := Conditions{ClockMHz: stats.Median(clock), PowerW: stats.Median(power), TempC: stats.Median(temp),
		Throttled: stats.Median(throttled), ReadBandwidth: stats.Median(read), LinkBandwidth: stats.Median(link)}
	for reason := range reasons {
		reasons[reason] /= n
	}
	if len(reasons) > 0 {
		out.Reasons = reasons
	}
	return out
}
