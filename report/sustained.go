package report

import (
	"fmt"
	"slices"
	"strings"

	"github.com/gemmaudit/gemmaudit/rules"
)

func (s *Sheet) column(key string) *Column {
	i := slices.IndexFunc(s.Columns, func(c Column) bool { return c.Key == key })
	if i < 0 {
		return nil
	}
	return &s.Columns[i]
}

func seenCell(in rules.SeenIn) Cell {
	c := shown{text: string(in), raw: string(in)}
	switch in {
	case rules.SeenAtClock:
		c.text = "one clock only"
	case rules.SeenSustained:
		c.text = "sustained only"
	}
	return c
}

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
	return []Note{Notef(Neutral, "%s also ran sustained: seen %s", Count(ran, "finding"), strings.Join(words, ", "))}
}
