package table

import (
	"cmp"
	"maps"
	"slices"
)

// CardTable is a table with its card.
type CardTable struct {
	Card  string
	Table *Table
}

// SharedEntry is one action for some Ms of a product, with the cards on which it pays.
type SharedEntry struct {
	Product Product `json:"product"`
	From    int     `json:"from"`
	To      int     `json:"to"`
	Action  Action  `json:"action"`
	// Cards is the number of cards on which it pays, Of the number measured.
	Cards int `json:"cards"`
	Of    int `json:"of"`
	// Gain is the least gain of its proofs on those cards, 0 if there are none.
	Gain float64 `json:"gain"`
	// Only names the cards on which it pays, if not all.
	Only []string `json:"only,omitempty"`
}

// Shared is the common part of several cards' tables.
type Shared struct {
	// Table holds what pays on every card; of each proof, the one with the least gain.
	Table *Table
	// Entries are what pays on any card, by product and M, including what pays on all.
	Entries []SharedEntry
	// Left are the cards left out because their conditions differ from most cards'.
	Left []string
}

// Share finds what pays on every card; for a card with several tables, in each of them. Tables with another
// device, driver, library or regime than most are left out. Other conditions that differ are empty in the
// result.
func Share(tables []CardTable) Shared {
	groups := map[string]map[string]bool{} // cards by conditions
	for _, t := range tables {
		key := t.Table.Validators.key()
		if groups[key] == nil {
			groups[key] = map[string]bool{}
		}
		groups[key][t.Card] = true
	}
	most := ""
	for _, key := range slices.Sorted(maps.Keys(groups)) {
		if most == "" || len(groups[key]) > len(groups[most]) {
			most = key
		}
	}
	var out Shared
	var kept []CardTable
	for _, t := range tables {
		if t.Table.Validators.key() == most {
			kept = append(kept, t)
		} else if !slices.Contains(out.Left, t.Card) {
			out.Left = append(out.Left, t.Card)
		}
	}
	slices.Sort(out.Left)
	if len(kept) == 0 {
		return out
	}
	slices.SortStableFunc(kept, func(a, b CardTable) int { return cmp.Compare(a.Card, b.Card) })
	s := &sharing{tables: kept, cards: slices.Sorted(maps.Keys(groups[most]))}
	out.Table = &Table{Schema: Schema, Created: kept[0].Table.Created, Validators: kept[0].Table.Validators, Series: []Series{}}
	products := map[Product]bool{}
	for _, t := range kept {
		out.Table.Created = max(out.Table.Created, t.Table.Created)
		out.Table.Validators = out.Table.Validators.common(t.Table.Validators)
		for i := range t.Table.Series {
			products[t.Table.Series[i].Product] = true
		}
	}
	for _, p := range slices.SortedFunc(maps.Keys(products), Product.Compare) {
		series, entries, all := s.product(p)
		out.Entries = append(out.Entries, entries...)
		if all {
			out.Table.Series = append(out.Table.Series, series)
		}
	}
	out.Table.Sort()
	out.Table.Recount()
	return out
}

func (v Validators) key() string {
	s := v.Device + "\x00" + v.Driver + "\x00" + v.Regime
	for _, name := range slices.Sorted(maps.Keys(v.Libraries)) {
		s += "\x00" + name + "\x00" + v.Libraries[name]
	}
	return s
}

func (v Validators) common(o Validators) Validators {
	same := func(a, b string) string {
		if a != b {
			return ""
		}
		return a
	}
	v.Kernel, v.ClockPolicy, v.Arch = same(v.Kernel, o.Kernel), same(v.ClockPolicy, o.ClockPolicy), same(v.Arch, o.Arch)
	v.CPUModel, v.Gemmaudit = same(v.CPUModel, o.CPUModel), same(v.Gemmaudit, o.Gemmaudit)
	if !slices.Equal(v.Features, o.Features) {
		v.Features = nil
	}
	if v.Cores != o.Cores {
		v.Cores = 0
	}
	if v.Threads != o.Threads {
		v.Threads = 0
	}
	return v
}

type sharing struct {
	tables []CardTable
	cards  []string
}

// product finds what the tables agree on for one product; all is true if every table has it.
func (s *sharing) product(p Product) (out Series, entries []SharedEntry, all bool) {
	series := make([]*Series, len(s.tables)) // nil if a table lacks it
	all = true
	var ends []int
	out = Series{Product: p, Default: Action{Kind: Direct}, Intervals: []Interval{}}
	for i, t := range s.tables {
		for k := range t.Table.Series {
			if t.Table.Series[k].Product == p {
				series[i] = &t.Table.Series[k]
			}
		}
		if series[i] == nil {
			all = false
			continue
		}
		for _, iv := range series[i].Intervals {
			ends = append(ends, iv.From, iv.To+1)
		}
	}
	slices.Sort(ends)
	ends = slices.Compact(ends)
	for k := 0; k+1 < len(ends); k++ {
		for _, e := range s.stretch(p, series, ends[k], ends[k+1]-1) {
			if n := len(entries); n > 0 {
				// Adjacent entries with the same cards and action are merged, since tables split at different
				// Ms.
				if last := &entries[n-1]; last.To+1 == e.From && last.Action.Equal(e.Action) && last.Cards == e.Cards &&
					slices.Equal(last.Only, e.Only) {
					last.To, last.Gain = e.To, leastGain(last.Gain, e.Gain)
					continue
				}
			}
			entries = append(entries, e)
		}
	}
	if !all {
		return out, entries, false
	}
	out.FromM, out.ToM = series[0].FromM, series[0].ToM
	for _, x := range series {
		if x.ToM == 0 || out.ToM == 0 {
			out.FromM, out.ToM = 0, 0
			break
		}
		out.FromM, out.ToM = max(out.FromM, x.FromM), min(out.ToM, x.ToM)
	}
	if out.ToM < out.FromM {
		out.FromM, out.ToM = 0, 0
	}
	for _, e := range entries {
		if e.Cards == len(s.cards) {
			if iv, ok := common(series, e); ok {
				out.Intervals = append(out.Intervals, iv)
			}
		}
	}
	return out, entries, true
}

func leastGain(a, b float64) float64 {
	if a == 0 || b != 0 && b < a {
		return b
	}
	return a
}

// stretch lists the actions of Ms between two interval boundaries of all tables.
func (s *sharing) stretch(p Product, series []*Series, from, to int) []SharedEntry {
	var out []SharedEntry
	var of [][]string // cards by entry
	for i := range s.tables {
		if series[i] == nil {
			continue
		}
		iv := series[i].interval(from)
		if iv == nil || iv.Action.kind() == Direct {
			continue
		}
		at := slices.IndexFunc(out, func(e SharedEntry) bool { return e.Action.Equal(iv.Action) })
		if at < 0 {
			at = len(out)
			out = append(out, SharedEntry{Product: p, From: from, To: to, Action: iv.Action, Of: len(s.cards)})
			of = append(of, nil)
		}
		for _, proof := range iv.Proofs {
			out[at].Gain = leastGain(out[at].Gain, proof.GainMid)
		}
		if !slices.Contains(of[at], s.tables[i].Card) {
			of[at] = append(of[at], s.tables[i].Card)
		}
	}
	for at := range out {
		// A card does not count if another of its tables disagrees.
		cards := slices.DeleteFunc(of[at], func(card string) bool {
			for i, t := range s.tables {
				if t.Card == card && (series[i] == nil || !series[i].Lookup(from).Equal(out[at].Action)) {
					return true
				}
			}
			return false
		})
		if out[at].Cards = len(cards); len(cards) < len(s.cards) {
			out[at].Only = cards
		}
	}
	return slices.DeleteFunc(out, func(e SharedEntry) bool { return e.Cards == 0 })
}

// interval returns the interval that contains m, nil if none.
func (s *Series) interval(m int) *Interval {
	for i := range s.Intervals {
		if s.Intervals[i].From <= m && m <= s.Intervals[i].To {
			return &s.Intervals[i]
		}
	}
	return nil
}

// common returns an entry's interval shared by every series, with the least gains. ok is false if no M of it
// was measured on every card.
func common(series []*Series, e SharedEntry) (Interval, bool) {
	out := Interval{From: e.From, To: e.To, Action: e.Action, Filled: true}
	proofs := map[int]Proof{}
	measured := func(m int) bool {
		for _, s := range series {
			iv := s.interval(m)
			if iv == nil || iv.Step > 1 && (iv.To-m)%iv.Step != 0 {
				return false
			}
		}
		return true
	}
	for _, s := range series {
		for i := range s.Intervals {
			iv := &s.Intervals[i]
			if iv.To < e.From || iv.From > e.To {
				continue
			}
			out.Step, out.Filled = max(out.Step, iv.Step), out.Filled && iv.Filled
			for _, p := range iv.Proofs {
				if p.M < e.From || p.M > e.To {
					continue
				}
				if before, ok := proofs[p.M]; !ok || p.GainLo < before.GainLo {
					proofs[p.M] = p
				}
			}
		}
	}
	for out.To >= out.From && !measured(out.To) {
		out.To--
	}
	if out.Step > 1 {
		for out.From <= out.To && (!measured(out.From) || (out.To-out.From)%out.Step != 0) {
			out.From++
		}
	}
	if out.From > out.To {
		return out, false
	}
	for _, m := range slices.Sorted(maps.Keys(proofs)) {
		if m >= out.From && m <= out.To {
			out.Proofs = append(out.Proofs, proofs[m])
		}
	}
	if out.Step > 1 {
		out.Filled = false
	}
	return out, true
}
