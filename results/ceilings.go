package results

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/gemmaudit/gemmaudit/kernels"
)

// mostRate limits a device's rates per second, so products with valid times are finite.
const mostRate = 1e24

// MostPeaks limits a device's peaks, one per data type and origin.
const MostPeaks = 1 << 8

// CheckCeilings names an invalid rate, or returns nil.
func CheckCeilings(c kernels.Ceilings) error {
	if len(c.Peaks) > MostPeaks {
		return fmt.Errorf("%d peaks, expected at most %d", len(c.Peaks), MostPeaks)
	}
	check := func(name string, v, most float64) error {
		if !(v >= 0 && v <= most) {
			return fmt.Errorf("%s is %v, expected 0 to %g", name, v, most)
		}
		return nil
	}
	errs := []error{check("read_bandwidth", c.ReadBandwidth, mostRate), check("copy_bandwidth", c.CopyBandwidth, mostRate),
		check("link_bandwidth", c.LinkBandwidth, mostRate)}
	for _, p := range c.Peaks {
		errs = append(errs, check("flops", p.FLOPS, mostRate), check("clock_mhz", p.ClockMHz, MostFigure),
			check("rate", p.Memory.Rate, mostRate))
	}
	return cmp.Or(errs...)
}

// PeakOf returns the reference of a series' MFU; without one, its origin is [kernels.Relative].
func PeakOf(meta Meta, k SeriesKey) kernels.Peak {
	if p, ok := meta.Ceilings[k.Device].Roof(k.Subject); ok {
		return p
	}
	return kernels.Peak{DType: k.DType, Origin: kernels.Relative}
}

// HighestCeilings joins the ceilings of devices: the highest rates of each origin, and measured bandwidths before data sheets'.
func HighestCeilings(a, b map[string]kernels.Ceilings) map[string]kernels.Ceilings {
	out := maps.Clone(a)
	if out == nil && len(b) > 0 {
		out = map[string]kernels.Ceilings{}
	}
	for device, more := range b {
		c := out[device]
		c.Peaks = slices.Clone(c.Peaks)
		has, brings := c.ReadBandwidth > 0 || c.CopyBandwidth > 0, more.ReadBandwidth > 0 || more.CopyBandwidth > 0
		switch {
		// A measurement takes precedence over a data sheet.
		case brings && (!has || c.BandwidthOrigin != "" && more.BandwidthOrigin == ""):
			c.ReadBandwidth, c.CopyBandwidth, c.BandwidthOrigin = more.ReadBandwidth, more.CopyBandwidth, more.BandwidthOrigin
		case c.BandwidthOrigin == more.BandwidthOrigin:
			c.ReadBandwidth = max(c.ReadBandwidth, more.ReadBandwidth)
			c.CopyBandwidth = max(c.CopyBandwidth, more.CopyBandwidth)
		}
		c.LinkBandwidth = max(c.LinkBandwidth, more.LinkBandwidth)
		for _, p := range more.Peaks {
			i := slices.IndexFunc(c.Peaks, func(q kernels.Peak) bool { return q.DType == p.DType && q.Origin == p.Origin })
			switch {
			case i < 0:
				c.Peaks = append(c.Peaks, p)
			case p.FLOPS > c.Peaks[i].FLOPS:
				c.Peaks[i] = p
			}
		}
		out[device] = c
	}
	return out
}
