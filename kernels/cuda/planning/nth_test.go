package planning

import "testing"

// listed is a family of fixed plans.
type listed struct{ plans []Plan[int] }

func (listed) Name() string         { return "listed" }
func (listed) Describe(Arch) string { return "fixed plans" }
func (listed) Supports(_ Arch, p int) string {
	if p < 0 {
		return "negative"
	}
	return ""
}
func (l listed) Plan(Arch, int) Plan[int]         { return Fastest(l.plans) }
func (l listed) Candidates(Arch, int) []Plan[int] { return l.plans }

func TestNth(t *testing.T) {
	of := listed{[]Plan[int]{{Label: "c", Seconds: 3}, {Label: "a", Seconds: 1}, {Label: "b", Seconds: 2}, {Label: "also b", Seconds: 2}}}
	for n, want := range []string{"a", "b", "also b", "c"} {
		f := Nth[int, int]{of, n}
		if got := f.Plan(Arch{}, 1).Label; got != want || f.Supports(Arch{}, 1) != "" || f.Supports(Arch{}, -1) != "negative" {
			t.Errorf("place %d is %q, want %q", n, got, want)
		}
	}
	if of.plans[0].Label != "c" {
		t.Error("the family's list was sorted")
	}
	if got := (Nth[int, int]{of, 4}).Supports(Arch{}, 1); got != "listed has 4 plans for it" {
		t.Errorf("the fifth of four: %q", got)
	}
}
