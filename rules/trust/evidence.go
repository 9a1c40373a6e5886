package trust

import (
	"fmt"

	"github.com/gemmaudit/gemmaudit/rules/outcome"
)

// Evidence is what decides the outcome of a simulation: rates above their bounds, and rates of too few machines.
func (r *Result) Evidence() outcome.Evidence {
	var e outcome.Evidence
	if n := len(r.Broken); n > 0 {
		b := r.Broken[0]
		text := fmt.Sprintf("%s under %s is %d of %d, bound %.2f %%", b.Measure, b.Kind, b.Hits, b.Of, 100*b.Bound)
		if n > 1 {
			text += fmt.Sprintf(", and %d more", n-1)
		}
		e.Proven = append(e.Proven, fmt.Sprintf("%s: %s", count(n, "rate exceeds its bound", "rates exceed their bounds"), text))
	}
	if n := len(r.Thin); n > 0 {
		e.Open = append(e.Open,
			outcome.Ground{Text: fmt.Sprintf("%s too few machines for a comparison with the bound: %s under %s has a count of %d",
				count(n, "rate has", "rates have"), r.Thin[0].Measure, r.Thin[0].Kind, r.Thin[0].Of), Hint: "use more --machines"})
	}
	return e
}

func count(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}
