package results

import (
	"testing"

	"github.com/gemmaudit/gemmaudit/kernels"
)

// A measured bandwidth takes precedence over a data sheet's in any merge order.
func TestBandwidthsAreJoined(t *testing.T) {
	sheet := kernels.Ceilings{ReadBandwidth: 3350e9, BandwidthOrigin: kernels.DataSheet}
	slow, fast := kernels.Ceilings{ReadBandwidth: 2900e9, CopyBandwidth: 2700e9},
		kernels.Ceilings{ReadBandwidth: 3000e9, CopyBandwidth: 2600e9}
	for _, c := range []struct {
		name string
		a, b kernels.Ceilings
		want kernels.Ceilings
	}{
		{"a sheet and a measurement", sheet, slow, slow},
		{"two measurements", slow, fast, kernels.Ceilings{ReadBandwidth: 3000e9, CopyBandwidth: 2700e9}},
		{"two sheets", sheet, sheet, sheet},
		{"a sheet and nothing", sheet, kernels.Ceilings{}, sheet},
		{"a measurement of copying alone, and nothing", kernels.Ceilings{CopyBandwidth: 1e12}, kernels.Ceilings{},
			kernels.Ceilings{CopyBandwidth: 1e12}},
	} {
		for _, order := range [][2]kernels.Ceilings{{c.a, c.b}, {c.b, c.a}} {
			got := HighestCeilings(map[string]kernels.Ceilings{"card": order[0]}, map[string]kernels.Ceilings{"card": order[1]})["card"]
			if got.ReadBandwidth != c.want.ReadBandwidth || got.CopyBandwidth != c.want.CopyBandwidth ||
				got.BandwidthOrigin != c.want.BandwidthOrigin {
				t.Errorf("%s: %+v, want %+v", c.name, got, c.want)
			}
		}
	}
}
