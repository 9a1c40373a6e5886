package diff

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/results"
)

// ChoicesSchema is the value of ChoicesDiff.Schema.
const ChoicesSchema = "gemmaudit.choices-diff/1"

// Chosen is one side of a comparison: the kernels that would run, as a run or a machine reported them.
type Chosen struct {
	Name    string
	Choices map[results.SeriesKey]results.Choices
	// Ms are the asked Ms by series, ascending. For a missing series every whole number of its stretches
	// counts.
	Ms map[results.SeriesKey][]int
}

// Choices lists where two sides would run different kernels, before anything is timed.
type Choices struct {
	Schema string          `json:"schema"`
	A      string          `json:"a"`
	B      string          `json:"b"`
	Series []SeriesChoices `json:"series"`
	// Asked counts the Ms that both sides reported, Changed those with another launch.
	Asked   int `json:"asked"`
	Changed int `json:"changed"`
	// OnlyA and OnlyB are series that the other side lacks.
	OnlyA []results.SeriesKey `json:"only_a,omitempty"`
	OnlyB []results.SeriesKey `json:"only_b,omitempty"`
}

// SeriesChoices is one series on both sides.
type SeriesChoices struct {
	A       results.SeriesKey `json:"series_a"`
	B       results.SeriesKey `json:"series_b"`
	Asked   int               `json:"asked"`
	Changed int               `json:"changed"`
	// Stretches are runs of asked Ms with one launch on each side, the two different.
	Stretches []ChangedStretch `json:"stretches,omitempty"`
}

// Share is the part of the asked Ms that changed.
func (s SeriesChoices) Share() float64 { return float64(s.Changed) / float64(max(1, s.Asked)) }

// ChangedStretch is a run of asked Ms whose launch changed.
type ChangedStretch struct {
	From int                `json:"from"`
	To   int                `json:"to"`
	Ms   int                `json:"ms"`
	A    results.LaunchKind `json:"a"`
	B    results.LaunchKind `json:"b"`
}

// CompareChoices compares two runs or machines. It pairs series by what they compute and their kernels' names,
// and by device if a side has several.
func CompareChoices(a, b Chosen) (*Choices, error) {
	several := len(devicesOf(a)) > 1 || len(devicesOf(b)) > 1
	return diffChoices(a, b, func(k results.SeriesKey) results.SeriesKey {
		if !several {
			k.Device = ""
		}
		return k
	})
}

// CompareChosenKernels compares two kernels of one side.
func CompareChosenKernels(of Chosen, a, b string) (*Choices, error) {
	return diffChoices(of.only(a, func(k results.SeriesKey) bool { return k.Kernel == a }),
		of.only(b, func(k results.SeriesKey) bool { return k.Kernel == b }),
		func(k results.SeriesKey) results.SeriesKey { k.Kernel = ""; return k })
}

// CompareChosenLayouts compares two layouts of the weights on one side.
func CompareChosenLayouts(of Chosen, a, b kernels.Layout) (*Choices, error) {
	return diffChoices(of.only(a.String(), func(k results.SeriesKey) bool { return k.Layout == a }),
		of.only(b.String(), func(k results.SeriesKey) bool { return k.Layout == b }),
		func(k results.SeriesKey) results.SeriesKey { k.Layout = kernels.RowMajor; return k })
}

func (c Chosen) only(name string, keep func(results.SeriesKey) bool) Chosen {
	out := Chosen{Name: name, Choices: maps.Clone(c.Choices), Ms: c.Ms}
	maps.DeleteFunc(out.Choices, func(k results.SeriesKey, _ results.Choices) bool { return !keep(k) })
	return out
}

func devicesOf(c Chosen) map[string]bool {
	out := map[string]bool{}
	for k := range c.Choices {
		out[k.Device] = true
	}
	return out
}

func diffChoices(a, b Chosen, pair func(results.SeriesKey) results.SeriesKey) (*Choices, error) {
	for _, side := range []Chosen{a, b} {
		if len(side.Choices) == 0 {
			return nil, fmt.Errorf("%s: no kernel choices are known", side.Name)
		}
	}
	d := &Choices{Schema: ChoicesSchema, A: a.Name, B: b.Name}
	inA := map[results.SeriesKey]results.SeriesKey{}
	for _, k := range results.ChosenSeries(a.Choices) {
		inA[pair(k)] = k
	}
	for _, kb := range results.ChosenSeries(b.Choices) {
		ka, ok := inA[pair(kb)]
		if !ok {
			d.OnlyB = append(d.OnlyB, kb)
			continue
		}
		delete(inA, pair(kb))
		s := SeriesChoices{A: ka, B: kb}
		s.compare(a.Choices[ka], b.Choices[kb], both(askedIn(a, ka), askedIn(b, kb)))
		d.Series = append(d.Series, s)
		d.Asked += s.Asked
		d.Changed += s.Changed
	}
	left := map[results.SeriesKey]results.Choices{}
	for _, k := range inA {
		left[k] = nil
	}
	d.OnlyA = results.ChosenSeries(left)
	if len(d.Series) == 0 {
		return nil, errors.New(a.Name + " and " + b.Name + " have no series in common")
	}
	return d, nil
}

func askedIn(c Chosen, k results.SeriesKey) []int {
	if ms, ok := c.Ms[k]; ok {
		return ms
	}
	var ms []int
	for _, s := range c.Choices[k] {
		for m := s.From; m <= s.To; m++ {
			ms = append(ms, m)
		}
	}
	return ms
}

func both(a, b []int) []int {
	var out []int
	for _, m := range a {
		if _, there := slices.BinarySearch(b, m); there {
			out = append(out, m)
		}
	}
	return out
}

func (s *SeriesChoices) compare(a, b results.Choices, ms []int) {
	open := false // the last stretch may continue
	for _, m := range ms {
		ka, okA := a.At(m)
		kb, okB := b.At(m)
		if !okA || !okB {
			open = false
			continue
		}
		s.Asked++
		if alike(ka, kb) {
			open = false
			continue
		}
		s.Changed++
		if last := len(s.Stretches) - 1; open && s.Stretches[last].A == ka && s.Stretches[last].B == kb {
			s.Stretches[last].To = m
			s.Stretches[last].Ms++
			continue
		}
		s.Stretches = append(s.Stretches, ChangedStretch{From: m, To: m, Ms: 1, A: ka, B: kb})
		open = true
	}
	s.Stretches = slices.Clip(s.Stretches)
}

// alike reports whether two kinds are the same launch. It ignores the number of waves, which differs between
// cards, and a tile orientation known on one side only.
func alike(a, b results.LaunchKind) bool {
	if a.Orientation == kernels.OrientationUnknown || b.Orientation == kernels.OrientationUnknown {
		for _, k := range []*results.LaunchKind{&a, &b} {
			k.Tile[0], k.Tile[1] = min(k.Tile[0], k.Tile[1]), max(k.Tile[0], k.Tile[1])
			k.Orientation = ""
		}
	}
	a.Slots, b.Slots = 0, 0
	return a == b
}
