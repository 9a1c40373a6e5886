package fleet

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/gemmaudit/gemmaudit/rules/stats"
)

const (
	// A smaller group of cards is outliers, not a mode.
	leastMode, modeShare = 3, 0.2
	// leastGap is the minimum distance between two modes, in standard deviations within them; evenly spread
	// cards reach 3.5. For few cards the bound is fewGap plus manyCards over their number: three in a
	// thousand fleets of normal cards reach it. See TestModesByChance.
	leastGap, fewGap, manyCards = 4.2, 3.0, 40.0
	// leastModeRatio is the minimum reported ratio of times between modes.
	leastModeRatio = 0.005
)

// ok is false if the values are unimodal.
func split(v []float64) (border, ratio float64, ok bool) {
	n := len(v)
	least := max(leastMode, int(math.Ceil(modeShare*float64(n))))
	if n < 2*least {
		return 0, 0, false
	}
	s := slices.Clone(v)
	slices.Sort(s)
	sum, squares := make([]float64, n+1), make([]float64, n+1)
	for i, x := range s {
		x -= s[n/2]
		sum[i+1], squares[i+1] = sum[i]+x, squares[i]+x*x
	}
	within := func(from, to int) float64 {
		x := sum[to] - sum[from]
		return squares[to] - squares[from] - x*x/float64(to-from)
	}
	best := math.Inf(1)
	at := 0
	for k := least; k <= n-least; k++ {
		if w := within(0, k) + within(k, n); w < best {
			best, at = w, k
		}
	}
	gap := (sum[n]-sum[at])/float64(n-at) - sum[at]/float64(at)
	sd := math.Max(math.Sqrt(math.Max(0, best)/float64(n-2)), leastDeviation)
	if gap/sd < math.Max(leastGap, fewGap+manyCards/float64(n)) || gap < math.Log1p(leastModeRatio) {
		return 0, 0, false
	}
	return (s[at-1] + s[at]) / 2, stats.Exp(gap), true
}

// divide looks for modes in each set of peers. Each card is then compared with its own mode.
func (a *answers) divide() bool {
	any := false
	for g := range a.groups {
		for _, of := range []struct {
			name string
			e    *effects
		}{{"common", a.whole.common}, {"sustained", a.whole.sustained}} {
			var cards []int
			var v []float64
			for c := range a.cards {
				if a.sets[c] == g && of.e.cards[c].known {
					cards, v = append(cards, c), append(v, of.e.cards[c].dev)
				}
			}
			border, ratio, ok := split(v)
			if !ok {
				continue
			}
			m := &Modes{Of: of.name, Ratio: ratio}
			for i, c := range cards {
				if v[i] > border {
					a.slower[c], a.sets[c] = true, a.setCount
					m.Slower++
				} else {
					m.Faster++
				}
			}
			m.With = a.goesWith(cards)
			a.modes[g] = m
			a.setCount++
			any = true
			break
		}
	}
	return any
}

// goesWith is a label or a factor of the host that predicts the mode of nearly every card, or "".
func (a *answers) goesWith(cards []int) string {
	values := map[string]map[string][2]int{}
	for _, c := range cards {
		p := a.processes[a.cards[c].processes[0]]
		all := map[string]string{}
		maps.Copy(all, p.machine)
		maps.Copy(all, p.labels)
		for name, value := range all {
			if values[name] == nil {
				values[name] = map[string][2]int{}
			}
			n := values[name][value]
			if a.slower[c] {
				n[1]++
			} else {
				n[0]++
			}
			values[name][value] = n
		}
	}
	type candidate struct {
		name  string
		wrong int
		words []string
	}
	var out []candidate
	for name, byValue := range values {
		// A label that is unique to each card predicts every mode and explains none.
		if len(byValue) < 2 || 2*len(byValue) > len(cards) {
			continue
		}
		x := candidate{name: name}
		for _, value := range slices.Sorted(maps.Keys(byValue)) {
			n := byValue[value]
			x.wrong += min(n[0], n[1])
			if n[1] > n[0] {
				x.words = append(x.words, value)
			}
		}
		if 20*x.wrong <= len(cards) {
			out = append(out, x)
		}
	}
	if len(out) == 0 {
		return ""
	}
	slices.SortFunc(out, func(x, y candidate) int { return cmp.Or(x.wrong-y.wrong, cmp.Compare(x.name, y.name)) })
	const most = 4
	words := out[0].words
	for i := range words {
		words[i] = fmt.Sprintf("%.40s", words[i])
	}
	text := out[0].name + "=" + strings.Join(words[:min(most, len(words))], ",")
	if len(words) > most {
		text += " …"
	}
	return text
}
