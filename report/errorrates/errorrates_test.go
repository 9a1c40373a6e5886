package errorrates

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/gemmaudit/gemmaudit/rules/trust"
)

// The summary must add up the kinds of noise and name the one closest to its bound.
func TestTrustSummary(t *testing.T) {
	rate := func(kind string, hits, of int, bound float64) trust.Rate {
		c := trust.Count{Hits: hits, Of: of}
		return trust.Rate{Kind: kind, Count: c, Upper: c.Upper(), Bound: bound}
	}
	row := summaryRow("open", []trust.Rate{rate("quiet", 40, 1000, 0.1), rate("noise3", 60, 1000, 0.2), rate("unbounded", 1000, 1000, 0),
		rate("empty", 0, 0, 0.1)})
	if want := []any{"open", "10 %", "100/2000", "quiet", "40/1000, ≤5.18 %"}; !slices.Equal(row, want) {
		t.Errorf("got %q, want %q", row, want)
	}
	row = summaryRow("false", []trust.Rate{rate("quiet", 0, 100, 0), rate("noise3", 1, 100, 0)})
	if want := []any{"false", "", "1/200", "noise3", "1/100, ≤4.66 %"}; !slices.Equal(row, want) {
		t.Errorf("got %q, want %q", row, want)
	}
	if row := summaryRow("none", []trust.Rate{rate("quiet", 0, 0, 0.05)}); row != nil {
		t.Errorf("got %q of nothing", row)
	}
}

// docs/trust.md must have every rate of the summary.
func TestTrustPage(t *testing.T) {
	page, err := os.ReadFile("../../docs/trust.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range summaryRates {
		if !strings.Contains(string(page), "| "+b.name+" |") {
			t.Errorf("docs/trust.md has no row %q", b.name)
		}
	}
}
