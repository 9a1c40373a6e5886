package results

import (
	"math"
	"testing"
)

func TestLostTime(t *testing.T) {
	for _, c := range []struct {
		disturbance string
		us          float64
	}{
		{"", 0},
		{"stolen 10 ms", 0},
		{"preempted 3 times", 0},
		{"preempted 4 times: lost 0.85 of 4.9 ms", 212.5},
		{"stolen 10 ms, stopped: lost 0.17 of 3.9 ms", 42.5},
		{"stopped: lost 9.9 of 4.9 ms", 0},
		{"stopped: lost x of 4.9 ms", 0},
		{"stopped: lost -1 of 4.9 ms", 0},
	} {
		s := Sample{US: 1225, Launches: 4, Disturbance: c.disturbance}
		if got := s.LostUS(); math.Abs(got-c.us) > 1e-9 {
			t.Errorf("%q: %g us, expected %g", c.disturbance, got, c.us)
		}
	}
}
