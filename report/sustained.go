package report

import (
	"fmt"
	"slices"
	"strings"

	"github.com/gemmaudit/gemmaudit/rules"
)

// insert puts columns, with their cells of every row, before the column of a key.
func (s *Sheet) insert(before string, columns []Column, cells [][]any) {
	at := slices.IndexFunc(s.Columns, func(c Column) bool { return c.Key == before })
	if at < 0 {
		at = len(s.Columns)
	}
	s.Columns = slices.Insert(slices.Clone(s.Columns), at, columns...)
	for i := range s.Rows {
		s.Rows[i] = slices.Insert(slices.Clone(s.Rows[i]), at, cells[i]...)
	}
}

// column is the column of a key, nil for none.
func (s *Sheet) column(key string) *Column {
	i := slices.IndexFunc(s.Columns, func(c Column) bool { return c.Key == key })
	if i < 0 {
		return nil
	}
	return &s.Columns[i]
}

// addSustained puts what findings lose when their cases run sustained next to what they lose at
// the common clock; nothing where none ran so.
func (s *Sheet) addSustained(findings []rules.Finding) {
	if !slices.ContainsFunc(findings, func(f rules.Finding) bool { return f.Sustained != nil }) {
		return
	}
	s.column("loss").Name = "loss at one clock"
	columns := append([]Column{{Name: "loss sustained", Key: "sustained_loss", Align: Right}, {Name: "seen in", Key: "seen_in"}},
		sustainedColumns("mJ a launch", "reference mJ", true)...)
	cells := make([][]any, len(findings))
	for i, f := range findings {
		cells[i] = make([]any, len(columns))
		if f.Sustained != nil {
			cells[i] = append([]any{share(f.Sustained.Loss), seenCell(f.Sustained.SeenIn)}, sustainedCells(f.Sustained)...)
		}
	}
	s.insert("stake_us", columns, cells)
}

// addSustainedGain is addSustained for remedies.
func (s *Sheet) addSustainedGain(rows []rules.SplitRow) {
	if !slices.ContainsFunc(rows, func(r rules.SplitRow) bool { return r.Sustained != nil }) {
		return
	}
	columns := append([]Column{{Name: "gain sustained", Key: "sustained_gain", Align: Right}, {Name: "pays in", Key: "seen_in"}},
		sustainedColumns("direct mJ", "remedy mJ", false)...)
	cells := make([][]any, len(rows))
	for i, r := range rows {
		cells[i] = make([]any, len(columns))
		if r.Sustained != nil {
			cells[i] = append([]any{factor(r.Sustained.US / r.Sustained.AgainstUS), seenCell(r.Sustained.SeenIn)}, sustainedCells(r.Sustained)...)
		}
	}
	s.insert("stake_us", columns, cells)
}

// sustainedColumns are those of energy, time and clock; wide keeps the energy of what a
// finding is held against, mostly another M, to the wide form.
func sustainedColumns(own, against string, wide bool) []Column {
	return []Column{
		{Name: own, Key: "sustained_energy_mj", Align: Right}, {Name: against, Key: "sustained_against_energy_mj", Align: Right, Wide: wide},
		{Name: "sustained us", Key: "sustained_us", Align: Right, Wide: true}, {Name: "against us", Key: "sustained_against_us", Align: Right, Wide: true},
		{Name: "sustained MHz", Key: "sustained_clock_mhz", Align: Right, Wide: true}, {Name: "against MHz", Key: "sustained_against_clock_mhz", Align: Right, Wide: true},
	}
}

func sustainedCells(s *rules.Sustained) []any {
	known := func(v float64, decimals int) any {
		if v <= 0 {
			return nil
		}
		return number{v, decimals}
	}
	return []any{known(s.EnergyMJ, 1), known(s.AgainstEnergyMJ, 1), micros(s.US), micros(s.AgainstUS), known(s.ClockMHz, 0), known(s.AgainstClockMHz, 0)}
}

// seenCell says in which state of the device something is lost.
type seenCell rules.SeenIn

func (c seenCell) Text() string {
	switch rules.SeenIn(c) {
	case rules.SeenAtClock:
		return "one clock only"
	case rules.SeenSustained:
		return "sustained only"
	}
	return string(c)
}
func (c seenCell) Raw() any { return string(c) }

// sustainedNotes say how many of the findings that ran sustained are seen there too.
func sustainedNotes(a *rules.Audit) []Note {
	ran := 0
	seen := map[rules.SeenIn]int{}
	for _, f := range a.Findings {
		if f.Sustained != nil {
			ran++
			seen[f.Sustained.SeenIn]++
		}
	}
	if ran == 0 {
		return nil
	}
	words := []string{fmt.Sprintf("%d in both", seen[rules.SeenInBoth])}
	for _, s := range []struct {
		in   rules.SeenIn
		text string
	}{{rules.SeenAtClock, "at one clock only"}, {rules.SeenSustained, "in sustained running only"}, {rules.SeenInNeither, "in neither"}} {
		if n := seen[s.in]; n > 0 {
			words = append(words, fmt.Sprintf("%d %s", n, s.text))
		}
	}
	return []Note{{fmt.Sprintf("%s also ran sustained: seen %s", count(ran, "finding"), strings.Join(words, ", ")), Neutral}}
}
