package sweep

import (
	"slices"
	"testing"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/kernels/simulated"
)

// Beside a worker's kernels, auto with overlap is a series of its own wherever auto is measured.
func TestOverlappingIsPlannedWithAuto(t *testing.T) {
	device := func(names ...string) *simulated.Device {
		var all []simulated.KernelConfig
		for _, name := range names {
			k := simulated.KernelConfig{Name: name, Cost: simulated.Linear(1e10, 5e-6)}
			if name == "mine" {
				k.Process = "python"
			}
			all = append(all, k)
		}
		return simulated.New(simulated.Config{Gemms: all})
	}
	shared := device("auto", kernels.Overlapping, "cublas", "mine")
	if !kernels.ClashingName(device("auto"), kernels.Overlapping) {
		t.Errorf("a file may bring a kernel %q", kernels.Overlapping)
	}
	for _, c := range []struct {
		d         *simulated.Device
		asked     []string
		libraries bool
		want      []string
	}{
		{shared, nil, false, []string{"auto", kernels.Overlapping, "cublas", "mine"}},
		{shared, nil, true, []string{"cublas", "mine"}},
		{shared, []string{"mine", "auto"}, false, []string{"mine", "auto", kernels.Overlapping}},
		{shared, []string{"auto", kernels.Overlapping}, false, []string{"auto", kernels.Overlapping}},
		{shared, []string{"mine", "cublas"}, false, []string{"mine", "cublas"}},
		{device("auto", "cublas"), []string{"auto"}, false, []string{"auto"}},
	} {
		p := planned(t, c.d, "1,8", func(o *Options) { o.Kernels, o.Libraries = c.asked, c.libraries })
		var got []string
		for _, s := range p.Series {
			if !slices.Contains(got, s.Kernel) {
				got = append(got, s.Kernel)
			}
		}
		slices.Sort(got)
		slices.Sort(c.want)
		if !slices.Equal(got, c.want) {
			t.Errorf("--kernel %v, libraries %v: series of %v, expected %v", c.asked, c.libraries, got, c.want)
		}
	}
}
