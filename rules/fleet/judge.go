package fleet

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/gemmaudit/gemmaudit/rules"
	"github.com/gemmaudit/gemmaudit/rules/stats"
)

const mostWorst = 10

// Result judges all cards. The collector may take more runs afterwards.
func (c *Collector) Result() *Result {
	c.mu.Lock()
	defer c.mu.Unlock()
	arranged, warnings := c.arranged()
	processes, aside, unused := setAside(arranged, len(c.cases))
	r := &Result{Schema: Schema, Settings: c.settings, Runs: c.runs, Processes: len(processes), Groups: []Group{}, Confounds: []Confound{},
		Cards:    []Card{},
		Warnings: slices.Concat(c.warnings, warnings, aside), Unread: slices.Concat(c.unread, unused)}
	slices.SortFunc(r.Unread, func(a, b Unread) int { return cmp.Or(cmp.Compare(a.Path, b.Path), cmp.Compare(a.Reason, b.Reason)) })
	slices.SortFunc(r.Warnings, func(a, b rules.Warning) int {
		return cmp.Or(cmp.Compare(a.Subject, b.Subject), cmp.Compare(a.Text, b.Text))
	})
	if r.Unread == nil {
		r.Unread = []Unread{}
	}
	if r.Warnings == nil {
		r.Warnings = []rules.Warning{}
	}
	for _, p := range processes {
		if at := when(p.from); !at.IsZero() && (r.From.IsZero() || at.Before(r.From)) {
			r.From = at
		}
		if at := when(p.to); at.After(r.To) {
			r.To = at
		}
	}
	models := newModels(processes, c.cases, c.settings.at(c.baseline, processes))
	var all []*answers
	for _, m := range models {
		all = append(all, m.ask(c.settings, c.baseline))
	}
	// One family over all cards of all models.
	var p []float64
	type of struct {
		a    *answers
		card int
		best int
	}
	var cards []of
	for _, a := range all {
		for i := range a.cards {
			x, best := a.pValue(i)
			cards = append(cards, of{a, i, best})
			p = append(p, x)
		}
	}
	adjusted := stats.AdjustP(p)
	first := 0
	for _, a := range all {
		r.addGroups(a, first)
		first += len(a.groups)
	}
	first = 0
	at := 0
	for _, a := range all {
		h := a.heat()
		for range a.cards {
			x := cards[at]
			card := a.card(x.card, x.best, p[at], adjusted[at], c.settings)
			card.Group += first
			h.Cards = append(h.Cards, len(r.Cards))
			r.Cards = append(r.Cards, card)
			at++
		}
		a.findCases(h, r.Cards[at-len(a.cards):at], c.settings)
		r.Heat = append(r.Heat, *h)
		first += len(a.groups)
	}
	r.shareHosts()
	if n := r.withoutEarlier(); c.baseline != nil && n > 0 {
		r.Warnings = append(r.Warnings,
			rules.Warning{Subject: "baseline",
				Text: fmt.Sprintf("it has %d of the %d cards, with common cases; the others are compared only with their peers",
					len(r.Cards)-n, len(r.Cards))})
	}
	for _, a := range all {
		r.Warnings = append(r.Warnings, a.strays(c.settings.Drain)...)
		r.Warnings = append(r.Warnings, a.aloneWarnings()...)
	}
	r.all = all
	r.order()
	return r
}

// strays reports runs that are slower than their card's others, which its verdict ignores; intermittently
// slow cards have them.
func (a *answers) strays(loss float64) (out []rules.Warning) {
	for p, above := range a.whole.common.stray {
		if above >= math.Log1p(loss) {
			out = append(out, rules.Warning{Subject: a.processes[p].path,
				Text: fmt.Sprintf("%s takes %.2fx as long as in its other runs; this run is excluded from its verdict",
					a.processes[p].device, math.Exp(above))})
		}
	}
	return out
}

func (r *Result) withoutEarlier() (n int) {
	for i := range r.Cards {
		if r.Cards[i].Earlier == nil {
			n++
		}
	}
	return n
}

// Compared reports whether a card was compared with itself in a baseline.
func (r *Result) Compared() bool { return r.withoutEarlier() < len(r.Cards) }

// at uses the baseline's clock unless a clock is requested.
func (s Settings) at(b *Baseline, processes []*process) Settings {
	if b == nil || s.ClockMHz > 0 || len(processes) == 0 {
		return s
	}
	for i := range b.Groups {
		if b.Groups[i].Model == processes[0].model && b.Groups[i].ClockMHz > 0 {
			s.ClockMHz = b.Groups[i].ClockMHz
			return s
		}
	}
	return s
}

func (r *Result) shareHosts() {
	named, cards := map[string]int{}, map[string]int{}
	for _, c := range r.Cards {
		cards[c.Host]++
		if (c.Verdict == Drain || c.Verdict == Watch) && c.Kind != Mode {
			named[c.Host]++
		}
	}
	for i := range r.Cards {
		c := &r.Cards[i]
		if n := named[c.Host]; n > 1 && n == cards[c.Host] && c.Kind != Mode {
			c.SharedByHost = true
			c.Reason += fmt.Sprintf("; the same holds for all %d cards of %s", n, strings.TrimSpace(c.Host))
		}
	}
}

// Drain comes first, then the slowest.
func (r *Result) order() {
	rank := map[Verdict]int{Drain: 0, Watch: 1, Unjudged: 2, Fine: 3}
	order := make([]int, len(r.Cards))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(x, y int) int {
		a, b := &r.Cards[x], &r.Cards[y]
		return cmp.Or(rank[a.Verdict]-rank[b.Verdict], cmp.Compare(b.Loss.Mid, a.Loss.Mid), cmp.Compare(a.Host, b.Host),
			cmp.Compare(a.Card, b.Card))
	})
	place := make([]int, len(order))
	cards := make([]Card, len(order))
	for to, from := range order {
		place[from], cards[to] = to, r.Cards[from]
	}
	r.Cards = cards
	for h := range r.Heat {
		for k, i := range r.Heat[h].Cards {
			r.Heat[h].Cards[k] = place[i]
		}
	}
}
