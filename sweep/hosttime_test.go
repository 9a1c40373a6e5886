package sweep

import (
	"context"
	"math"
	"testing"
	"time"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/kernels/simulated"
	"github.com/gemmaudit/gemmaudit/results"
)

// eager starts launches one by one, which takes its host 16 us each.
type eager struct{ *simulated.Device }

func (d eager) Execute(ctx context.Context, launches []kernels.Launch, n int) (kernels.Span, error) {
	span, err := d.Device.Execute(ctx, launches, n)
	span.Host = 16 * time.Microsecond
	return span, err
}

// A sample has the host's time of one execution: of all its launches.
func TestHostTimeOfSamples(t *testing.T) {
	d := declared(nil)
	run := newRun(t, planned(t, d, "1:3", nil))
	for _, tc := range []struct {
		d    kernels.Device
		c    results.Case
		want float64
	}{{d, simCase(8), 0}, {eager{d}, simCase(8), 16}, {eager{d}, divided(simCase(8), 5, 3), 32}} {
		got, err := newMeasurer(t, tc.d, run, nil).Measure(t.Context(), []results.Request{{Case: tc.c, Phase: results.PhaseConfirm}}, 2)
		if err != nil || len(got[0]) != 2 {
			t.Fatal(got, err)
		}
		stored, err := run.Samples(results.PhaseConfirm)
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range []results.Sample{got[0][0], stored[len(stored)-1]} {
			if math.Abs(s.HostUS-tc.want) > 1e-9 {
				t.Errorf("%v: %g us of the host, expected %g", tc.c, s.HostUS, tc.want)
			}
		}
	}
}
