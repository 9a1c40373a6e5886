package health

import (
	"fmt"
	"io/fs"
	"strings"
)

func checkGovernor(m *machine) []Finding {
	const check = "governor"
	switch g := m.facts.Governor; {
	case g == "" && !m.exists("sys/devices/system/cpu"):
		return nil
	case g == "":
		return []Finding{{check, Note, "the system shows no frequency governor, as is usual in a virtual machine",
			"each block measures the clock for itself: look at it when a series jumps"}}
	case g == "performance":
		return []Finding{{check, OK, "performance on every CPU", ""}}
	default:
		return []Finding{{check, Warning, g + ": the clock follows the load, so short blocks run slower than long ones",
			"sudo cpupower frequency-set -g performance"}}
	}
}

func checkTurbo(m *machine) []Finding {
	switch m.facts.Turbo {
	case "on":
		return []Finding{{"turbo", Note, "on: the clock depends on temperature and on how many cores work",
			"compare cycles, or for equal clocks turn it off in sys/devices/system/cpu (intel_pstate/no_turbo or cpufreq/boost)"}}
	case "off":
		return []Finding{{"turbo", OK, "off", ""}}
	}
	return nil
}

// checkFrequency compares the CPU's allowed frequency range with its full one.
func checkFrequency(m *machine) []Finding {
	const check = "frequency"
	low, high := m.perCPU("cpufreq/scaling_min_freq"), m.perCPU("cpufreq/scaling_max_freq")
	best := m.perCPU("cpufreq/cpuinfo_max_freq")
	if len(high) == 0 {
		return nil
	}
	var least, most, possible float64
	capped := 0
	for cpu, v := range high {
		most = max(most, v)
		possible = max(possible, best[cpu])
		if v < best[cpu] {
			capped++
		}
		if l, ok := low[cpu]; ok && (least == 0 || l < least) {
			least = l
		}
	}
	const mhz = 1000
	if capped > 0 {
		return []Finding{{check, Warning,
			fmt.Sprintf("%d of %d CPUs are held below their %.0f MHz: at most %.0f MHz", capped, len(high), possible/mhz, most/mhz),
			"sudo cpupower frequency-set -u " + fmt.Sprintf("%.0fMHz", possible/mhz)}}
	}
	return []Finding{{check, OK, fmt.Sprintf("%.0f to %.0f MHz", least/mhz, most/mhz), ""}}
}

func checkThrottling(m *machine) []Finding {
	const check = "throttling"
	const hint = "let the machine cool down, look at its fans, and run again"
	if !m.after.throttledKnown {
		return nil
	}
	switch now := m.after.throttled - m.before.throttled; {
	case now > 0:
		return []Finding{{check, Warning, fmt.Sprintf("the CPU is too hot: it was slowed down %.0f times just now, while idle", now), hint}}
	case m.after.throttled > 0:
		return []Finding{{check, Note, fmt.Sprintf("the CPU was slowed down by heat %.0f times since it was started", m.after.throttled),
			"watch the sentinels' drift"}}
	}
	return []Finding{{check, OK, "never slowed down by heat since it was started", ""}}
}

func checkClock(m *machine) []Finding {
	const check = "clock"
	const folder = "sys/devices/system/clocksource/clocksource0/"
	source := m.text(folder + "current_clocksource")
	switch source {
	case "":
		return nil
	case "tsc", "arch_sys_counter", "timebase", "riscv_clocksource":
		return []Finding{{check, OK, source, ""}}
	case "kvm-clock", "hyperv_clocksource_tsc_page", "xen":
		return []Finding{{check, Note, source + ": time is read through the hypervisor's page, a little slower than tsc", ""}}
	}
	hint := "the kernel mistrusts this machine's TSC: see dmesg"
	for name := range strings.FieldsSeq(m.text(folder + "available_clocksource")) {
		if name == "tsc" {
			hint = "echo tsc | sudo tee /" + folder + "current_clocksource"
		}
	}
	return []Finding{{check, Warning, source + ": reading the time takes a system call of a microsecond or more", hint}}
}

func checkRights(m *machine) []Finding {
	const check = "rights"
	var out []Finding
	const paranoid = "proc/sys/kernel/perf_event_paranoid"
	if level, ok := m.number(paranoid); ok && level > 2 {
		out = append(out, Finding{check, Note, fmt.Sprintf("perf_event_paranoid is %.0f: users may not read performance counters", level),
			"sudo sysctl kernel.perf_event_paranoid=2"})
	}
	const freq = "sys/devices/system/cpu/cpu0/cpufreq/scaling_cur_freq"
	if m.exists(freq) {
		if _, err := fs.ReadFile(m.Files, freq); err != nil {
			out = append(out,
				Finding{check, Note, "the current frequency can't be read: " + err.Error(), "run as a user who may read /" + freq})
		}
	}
	if len(out) == 0 && (m.exists(paranoid) || m.exists(freq)) {
		out = append(out, Finding{check, OK, "this user may read everything that doctor checks", ""})
	}
	return out
}
