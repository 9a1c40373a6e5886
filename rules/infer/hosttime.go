package infer

import (
	"math"

	"github.com/gemmaudit/gemmaudit/rules/stats"
)

// hostShare is the least share of a row's time that the host must need to start its launches for the row to be
// bound by the host: device and host then end together, up to the errors of two clocks.
const hostShare = 0.9

// HostTime returns the median time of the host to start a launch of a point, in microseconds, as far as launches
// were started one by one; else 0. bound reports whether it takes the point's whole time, so that a faster kernel
// would change nothing.
func (c *Curve) HostTime(i int) (us float64, bound bool) {
	row := c.Points[i].Row
	if row < 0 {
		return 0, false
	}
	var host, share []float64
	usable := 0
	samples := c.Series.Rows[row].Samples
	for k := range samples {
		s := &samples[k]
		if !s.Usable() {
			continue
		}
		usable++
		if s.HostUS > 0 {
			host, share = append(host, s.HostUS), append(share, math.Min(s.HostUS/s.US, 1))
		}
	}
	if len(host) == 0 || 2*len(host) < usable {
		return 0, false
	}
	return stats.Median(host), stats.Median(share) >= hostShare
}
