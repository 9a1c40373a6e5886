package results

import "fmt"

// Text prints a series as tables and reports show it, "cpu/amx/bf16 n14336 k4096";
// what is not default follows. [SeriesKey.String] is the same with a slash before n.
func (k SeriesKey) Text() string {
	s := fmt.Sprintf("%s/%s/%s n%d k%d", k.Device, k.Kernel, k.DType, k.N, k.K)
	if k.Regime != "" && k.Regime != Engine {
		s += " " + string(k.Regime)
	}
	if k.PackInside {
		s += " pack-inside"
	}
	return s
}
