package fleet

import (
	"fmt"
	"math"
	"slices"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/rules"
)

// contrastLevel is the p-value from which on a card is slow in a family more than elsewhere.
const contrastLevel = 0.01

// card is the verdict on one card.
func (a *answers) card(i, best int, p, adjusted float64, s Settings) Card {
	m := &a.cards[i]
	last := a.processes[m.processes[len(m.processes)-1]]
	peers := a.groups[m.group].peers
	c := Card{Card: m.id, Host: last.host, Device: last.device, Model: a.name, Labels: last.labels, Group: m.group, Verdict: Fine, P: p, AdjustedP: adjusted,
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
		c.Verdict, c.Reason = Unjudged, "there is no other card of its model to compare it with"
		if !slices.ContainsFunc(m.processes, func(p int) bool { return !a.lonely[p] }) {
			c.Reason = fmt.Sprintf("no peer was measured near its time, %s: it can't be told from what the whole fleet did then; is its clock right?",
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
	f := facts{common: c.Common, sustained: c.Sustained, memory: math.NaN(), rest: math.NaN(), peers: common.peers, own: c.Conditions, others: c.PeerConditions,
		limits: limitsOf(c.Confounds, last.limits)}
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
	if software := softwareOf(c.Confounds, last.limits); len(software) > 0 {
		c.Verdict = Watch
		c.Reason += "; confounded: " + diffText(software)
	}
	if c.Since != nil && c.Since.Ratio.Mid > 1 {
		c.Reason += fmt.Sprintf("; since its run of %s", c.Since.Time.Format("2006-01-02 15:04"))
	}
	return c
}

// place finds out in which cases and in which time a card is slow, given the question that tells most.
func (a *answers) place(i int, q question, f *facts, c *Card) {
	common, sustained := a.whole.common.cards[i], a.whole.sustained.cards[i]
	if q.earlier {
		c.Loss, c.Of = q.effects.cards[i].interval(), "all cases at the common clock, over the same card in the baseline"
		f.common, f.against = c.Loss, "itself in the baseline"
		if !q.sustained {
			f.sustained = rules.Interval{}
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
	// More of it in sustained time than at the common clock: the clock.
	if sustained.known && sustained.dev-math.Max(0, common.dev) > math.Max(0, common.dev) && (q.sustained || sustained.p < common.p) {
		c.Loss, c.Of = sustained.interval(), "all cases in sustained time"
		return
	}
	// The widest family that is slow by itself explains it.
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
		// Where memory binds and one kernel both explain it, the one that does so more clearly does.
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

// clearer says whether a card stands out far more in a kernel, by how far its other cases do not, than where memory binds.
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

// limited has a card be watched whose whole group takes longer than the largest one of its model, and differs from it in limits alone, which
// somebody may set back.
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
	limits := limitsOf(x.Factors, last.limits)
	if len(limits) == 0 || len(limits) < len(x.Factors) || x.Sustained.Lo-1 < s.Watch {
		return
	}
	c.Verdict, c.Kind, c.Confounds = Watch, Clock, limits
	for _, d := range limits {
		if d.Name == kernels.PowerLimit {
			c.Kind = Power
		}
	}
	c.Loss, c.Of = x.Sustained, "all cases in sustained time, of its group over the largest one"
	c.Reason = fmt.Sprintf("like the %d cards with its limits, which are %s than %d others in sustained time: %s", len(a.groups[g].cards), slowerText(x.Sustained),
		len(a.groups[largest].cards), diffText(limits))
}

// fine words the verdict on a card that is not named. One of the slower mode is to be watched.
func (c *Card) fine(modes *Modes, slower bool) {
	c.Verdict = Fine
	if slower && modes != nil {
		c.Verdict, c.Kind = Watch, Mode
		c.Loss, c.Of = rules.Interval{Lo: modes.Ratio, Mid: modes.Ratio, Hi: modes.Ratio}, "the slower mode over the faster one"
		c.Reason = fmt.Sprintf("one of %d cards that take %s longer than %d others of the same model and software", modes.Slower, shareText(modes.Ratio-1), modes.Faster)
		if modes.With != "" {
			c.Reason += "; what goes with it: " + modes.With
		}
		return
	}
	peers := fmt.Sprintf("its %d peers", c.Peers)
	if c.Peers == 1 {
		peers = "its peer"
	}
	if c.Peers == 0 {
		peers = "itself in the baseline"
	}
	c.Reason = "like " + peers
	if c.Since != nil {
		word := "slower"
		if c.Since.Ratio.Mid < 1 {
			word = "faster"
		}
		c.Reason += fmt.Sprintf("; %s than itself before %s, by %s", word, c.Since.Time.Format("2006-01-02 15:04"), shareText(math.Abs(c.Since.Ratio.Mid-1)))
	}
}

// interval is the ratio with bounds of 95 % confidence; zero where it is not known.
func (e effect) interval() rules.Interval {
	if !e.known {
		return rules.Interval{}
	}
	half := quantile(0.025, math.Max(1, e.df)) * e.se
	return rules.Interval{Lo: expo(e.dev - half), Mid: expo(e.dev), Hi: expo(e.dev + half)}
}

// conditions are medians over the present processes of cards.
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
			for _, q := range []struct {
				to *[]float64
				v  float64
			}{{&clock, x.ClockMHz}, {&power, x.PowerW}, {&temp, x.TempC}, {&read, x.ReadBandwidth}, {&link, x.LinkBandwidth}} {
				if q.v > 0 {
					*q.to = append(*q.to, q.v)
				}
			}
			for reason, share := range x.Reasons {
				reasons[reason] += share
			}
		}
	}
	of := func(v []float64) float64 {
		if len(v) == 0 {
			return 0
		}
		return median(v)
	}
	out := Conditions{ClockMHz: of(clock), PowerW: of(power), TempC: of(temp), Throttled: of(throttled), ReadBandwidth: of(read), LinkBandwidth: of(link)}
	for reason, sum := range reasons {
		if out.Reasons == nil {
			out.Reasons = map[kernels.ThrottleReason]float64{}
		}
		out.Reasons[reason] = sum / n
	}
	return out
}
