package history

import (
	"testing"

	"github.com/gemmaudit/gemmaudit/rules"
	"github.com/gemmaudit/gemmaudit/rules/diff"
)

func TestDisturbedRunsAreSetAside(t *testing.T) {
	for _, despite := range []bool{false, true} {
		c := NewCollector(rules.Default())
		us := map[int]float64{}
		for i := range 12 {
			d := diff.Disturbed{Samples: 100, Disturbed: i % 3}
			if us[i] = 20; i >= 8 {
				d.Disturbed, us[i] = 80, 22
			}
			c.runs, c.disturbed = append(c.runs, Run{Path: string(rune('a' + i))}), append(c.disturbed, d)
		}
		c.times[place{"one", 64}] = us
		s := Default()
		s.DespiteDisturbance = despite
		r := c.Result(s)
		used := 0
		for _, at := range r.Cases[0].US {
			if at != nil {
				used++
			}
		}
		if want := map[bool]int{false: 8, true: 12}[despite]; used != want || (len(r.Warnings) == 4) == despite {
			t.Errorf("despite %v: %d runs used, expected %d; warnings %v", despite, used, want, r.Warnings)
		}
	}
}
