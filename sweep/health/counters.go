package health

import (
	"strconv"
	"strings"
)

type counters struct {
	cpus               int     // lines of /proc/stat
	busy, steal, total float64 // ticks over all CPUs since boot
	swapped            float64 // pages in and out since boot
	throttled          float64 // thermal events of all cores since boot
	throttledKnown     bool
}

func (m *machine) readCounters() counters {
	var c counters
	for line := range strings.Lines(m.text("proc/stat")) {
		// cpu user nice system idle iowait irq softirq steal guest guest_nice; user includes guest time.
		fields := strings.Fields(line)
		if len(fields) < 9 || !strings.HasPrefix(fields[0], "cpu") {
			continue
		}
		if fields[0] != "cpu" {
			c.cpus++
			continue
		}
		for i, f := range fields[1:9] {
			ticks, err := strconv.ParseFloat(f, 64)
			if err != nil {
				continue
			}
			c.total += ticks
			switch i {
			case 3, 4:
			case 7:
				c.steal += ticks
			default:
				c.busy += ticks
			}
		}
	}
	for _, key := range []string{"pswpin ", "pswpout "} {
		if v, err := strconv.ParseFloat(m.field("proc/vmstat", key), 64); err == nil {
			c.swapped += v
		}
	}
	for _, events := range m.perCPU("thermal_throttle/core_throttle_count") {
		c.throttledKnown = true
		c.throttled += events
	}
	return c
}
