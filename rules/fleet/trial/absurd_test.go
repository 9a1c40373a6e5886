package trial

import (
	"fmt"
	"strings"
	"testing"

	"github.com/gemmaudit/gemmaudit/rules/fleet"
)

// A run that takes a million times as long as the others, or a millionth, is set aside: all verdicts are the
// same without it.
func TestAbsurdRun(t *testing.T) {
	for _, cards := range []int{3, 4, 8} {
		for _, processes := range []int{1, 2, 3} {
			for _, times := range []float64{1e6, 1e-6} {
				t.Run(fmt.Sprintf("%d cards, %d runs each, %g times", cards, processes, times), func(t *testing.T) {
					c := Default(cards, 9)
					c.Processes = processes
					f := New(c)
					all, without := fleet.NewCollector(fleet.Default(), nil), fleet.NewCollector(fleet.Default(), nil)
					path := ""
					for card := range cards {
						for process := range processes {
							run := f.Run(card, process)
							if card == 1 && process == processes-1 {
								path = run.Path
								for _, s := range run.Series {
									for _, row := range s.Rows {
										for i := range row.Samples {
											row.Samples[i].US *= times
										}
									}
								}
							} else {
								without.Add(run)
							}
							all.Add(run)
						}
					}
					got, want := all.Result(), without.Result()
					told := ""
					for _, w := range got.Warnings {
						if w.Subject == path {
							told += w.Text
						}
					}
					for _, u := range got.Unread {
						if u.Path == path {
							told += u.Reason
						}
					}
					if !strings.Contains(told, "cuda:0") || !strings.Contains(told, "excluded") {
						t.Errorf("of %s it is said: %q", path, told)
					}
					if len(got.Cards) != len(want.Cards) {
						t.Fatalf("%d cards, without the run %d", len(got.Cards), len(want.Cards))
					}
					for i, x := range got.Cards {
						if y := want.Cards[i]; x.Card != y.Card || x.Verdict != y.Verdict || x.Common != y.Common ||
							x.Sustained != y.Sustained {
							t.Errorf("%s is %s, %v and %v; without the run %s is %s, %v and %v", x.Card, x.Verdict, x.Common, x.Sustained,
								y.Card, y.Verdict, y.Common, y.Sustained)
						}
					}
				})
			}
		}
	}
}
