package cpu

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/kernels/procfs"
)

var _ kernels.EnergyMeter = (*Device)(nil)

// powerZones is the folder of Linux's processor energy counters (RAPL). On most systems only root can read
// them.
const powerZones = "sys/class/powercap"

// energyMeter sums the processor packages' energy counters, which wrap around.
type energyMeter struct {
	last  map[string]float64 // of each package, in microjoules
	total float64            // microjoules since the first reading
}

// EnergyMJ implements [kernels.EnergyMeter].
func (d *Device) EnergyMJ() (float64, error) {
	return d.energy.read(procfs.Tree{FS: os.DirFS("/")})
}

// read returns the energy of all packages in millijoules since the first reading.
func (m *energyMeter) read(t procfs.Tree) (float64, error) {
	packages := 0
	for i := range 64 {
		// "intel-rapl:0" is a package, also on AMD; "intel-rapl:0:0" is part of it.
		zone := fmt.Sprintf("%s/intel-rapl:%d", powerZones, i)
		name := strings.TrimSpace(t.Text(zone + "/name"))
		if name == "" {
			break
		}
		if !strings.HasPrefix(name, "package") {
			continue // "psys" counts the packages again
		}
		now, err := strconv.ParseFloat(strings.TrimSpace(t.Text(zone+"/energy_uj")), 64)
		if err != nil {
			return 0, fmt.Errorf("energy of the processor: %s/energy_uj can't be read", zone)
		}
		packages++
		if before, ok := m.last[zone]; ok {
			step := now - before
			if step < 0 {
				most, err := strconv.ParseFloat(strings.TrimSpace(t.Text(zone+"/max_energy_range_uj")), 64)
				if err != nil {
					return 0, fmt.Errorf("energy of the processor: the counter of %s was reset", zone)
				}
				step += most
			}
			m.total += step
		}
		if m.last == nil {
			m.last = map[string]float64{}
		}
		m.last[zone] = now
	}
	if packages == 0 {
		return 0, errors.New("energy of the processor: this system has no counter of it")
	}
	return m.total / 1e3, nil
}
