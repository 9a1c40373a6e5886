package rules

import (
	"math"
	"testing"

	"github.com/gemmaudit/gemmaudit/results"
)

// TestCommonClockOfSamples: samples of a row that follows the clock are brought to one time, whatever clock each was taken at.
func TestCommonClockOfSamples(t *testing.T) {
	const reference = 1500.0
	series := results.Series{Key: syntheticKey}
	for i, m := range []int{64, 128, 192} {
		c := results.Case{ID: int64(i + 1), SeriesKey: syntheticKey, M: m}
		row := results.Row{Case: c}
		for round := range 9 {
			clock := reference * (1 + 0.01*float64((round*5+i)%9-4))
			row.Samples = append(row.Samples, results.Sample{CaseID: c.ID, Phase: results.PhaseSweep, Round: round, Seq: int64(3*round + i), Launches: 1,
				US: 100 * float64(i+1) * reference / clock, ClockMHz: clock})
		}
		series.Rows = append(series.Rows, row)
	}
	data := Data{Series: []results.Series{series}, Meta: results.Meta{ReferenceClock: map[string]float64{syntheticKey.Device: reference}}}
	clock := NewCommonClock(data, Default())
	for i, row := range series.Rows {
		for _, s := range row.Samples {
			us, mhz := clock.At(row.Case, s)
			if want := 100 * float64(i+1); math.Abs(us/want-1) > 0.002 || mhz != reference {
				t.Errorf("m%d: a sample of %.2f us at %.0f MHz is %.2f us at %.0f MHz, expected %.0f us at %.0f", row.Case.M, s.US, s.ClockMHz, us, mhz, want, reference)
			}
		}
	}
	first := series.Rows[0]
	unclocked := first.Samples[0]
	unclocked.ClockMHz = 0
	remedy := first.Case
	remedy.ID = 99
	for what, got := range map[string]func() (float64, float64){
		"a sample without a clock": func() (float64, float64) { return clock.At(first.Case, unclocked) },
		"a case of no curve":       func() (float64, float64) { return clock.At(remedy, first.Samples[0]) },
	} {
		if us, mhz := got(); us != 0 || mhz != 0 {
			t.Errorf("%s is %v us at %v MHz, expected nothing", what, us, mhz)
		}
	}
}
