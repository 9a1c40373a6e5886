package table

import (
	"cmp"
	"maps"
	"slices"
)

// CardTable is a table with the card that it was measured on.
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
	// Cards is on how many cards it pays, Of on how many the tables were measured.
	Cards int `json:"cards"`
	Of    int `json:"of"`
	// Gain is the least gain of all its proofs on those cards, 0 where there is none.
	Gain float64 `json:"gain"`
	// Only names the cards on which it pays, where that is not all of them.
	Only []string `json:"only,omitempty"`
}

// Shared is what the tables of several cards have in common.
type Shared struct {
	// Table holds what pays on every card; of each proof the one with the least gain.
	Table *Table
	// Entries are what pays on some card, by product and M: what pays on all cards is among them.
	Entries []SharedEntry
	// Left are the cards whose tables hold under other conditions than those of most cards, and are left out.
	Left []string
}

// Share finds what pays on every card. Of a card with several tables it has to stand in each. Tables of other devices, drivers, libraries or
// regimes than most cards have are left out. What else differs in their conditions is open in the common one.
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

// key is the conditions under which tables may be held against each other.
func (v Validators) key() string {
	s := v.Device + "\x00" + v.Driver + "\x00" + v.Regime
	for _, name := range slices.Sorted(maps.Keys(v.Libraries)) {
		s += "\x00" + name + "\x00" + v.Libraries[name]
	}
	return s
}

// common is what two sets of conditions agree in.
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

// sharing is tables of cards.
type sharing struct {
	tables []CardTable
	cards  []string
}

// product finds what the tables say alike of one product; all is true where every table has it.
func (s *sharing) product(p Product) (out Series, entries []SharedEntry, all bool) {
	series := make([]*Series, len(s.tables)) // nil where a table has it not
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
				// What the tables cut in pieces at different Ms is one stretch where the same cards have the same action.
				if last := &entries[n-1]; last.To+1 == e.From && last.Action.Equal(e.Action) && last.Cards == e.Cards && slices.Equal(last.Only, e.Only) {
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

// stretch lists the actions of Ms among which no interval of any table begins or ends.
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
		// A card with another table that does otherwise has it not.
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

// interval is the one in which m lies, nil for none.
func (s *Series) interval(m int) *Interval {
	for i := range s.Intervals {
		if s.Intervals[i].From <= m && m <= s.Intervals[i].To {
			return &s.Intervals[i]
		}
	}
	return nil
}

// common is the interval of an entry that every series has, with the least gains. ok is false where no M of it was measured on every card.
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
