package cpu

import (
	"strings"
	"testing"
	"testing/fstest"

	"github.com/gemmaudit/gemmaudit/kernels/procfs"
)

func rapl(files map[string]string) procfs.Tree {
	fsys := fstest.MapFS{}
	for path, text := range files {
		fsys[powerZones+"/"+path] = &fstest.MapFile{Data: []byte(text + "\n")}
	}
	return procfs.Tree{FS: fsys}
}

func TestEnergyOfPackages(t *testing.T) {
	zones := func(first, second string) procfs.Tree {
		return rapl(map[string]string{
			"intel-rapl:0/name": "package-0", "intel-rapl:0/energy_uj": first, "intel-rapl:0/max_energy_range_uj": "262143328850",
			"intel-rapl:0:0/name": "core", "intel-rapl:0:0/energy_uj": "999999999",
			"intel-rapl:1/name": "package-1", "intel-rapl:1/energy_uj": second, "intel-rapl:1/max_energy_range_uj": "262143328850",
			"intel-rapl:2/name": "psys", "intel-rapl:2/energy_uj": "5",
		})
	}
	m := &energyMeter{}
	for i, c := range []struct {
		first, second string
		want          float64 // mJ
	}{
		{"262143300000", "1000000", 0},
		{"262143328000", "3000000", 2028},
		{"1150", "3000000", 2030}, // the first wrapped around: 850 and 1150 µJ
	} {
		got, err := m.read(zones(c.first, c.second))
		if err != nil || got != c.want {
			t.Errorf("reading %d: %g mJ (%v), want %g", i, got, err, c.want)
		}
	}
}

func TestNoEnergy(t *testing.T) {
	for want, tree := range map[string]procfs.Tree{
		"has no counter":   rapl(nil),
		"can't be read":    rapl(map[string]string{"intel-rapl:0/name": "package-0"}),
		"no counter of it": rapl(map[string]string{"intel-rapl:0/name": "psys", "intel-rapl:0/energy_uj": "1"}),
	} {
		if mj, err := (&energyMeter{}).read(tree); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%g mJ, %v; want %q", mj, err, want)
		}
	}
}
