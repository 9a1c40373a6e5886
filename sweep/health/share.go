package health

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/gemmaudit/gemmaudit/kernels/procfs"
)

// Limits of other load, in CPUs: above the first, blocks are disturbed occasionally; above the second, most
// blocks of all threads are.
const (
	someLoad = 0.05
	muchLoad = 0.3
)

func checkLoad(m *machine) []Finding {
	const check = "load"
	elapsed := m.after.total - m.before.total
	if m.after.cpus == 0 || elapsed <= 0 {
		return nil
	}
	cpus := (m.after.busy - m.before.busy) / elapsed * float64(m.after.cpus)
	seen := fmt.Sprintf("others use %.2f of %d CPUs", cpus, m.after.cpus)
	average, _, _ := strings.Cut(m.text("proc/loadavg"), " ")
	recent, err := strconv.ParseFloat(average, 64)
	if err == nil {
		seen += fmt.Sprintf(", load average %.2f", recent)
	}
	switch {
	case cpus > muchLoad:
		return []Finding{{check, Warning, seen,
			"stop other programs (top lists them), or give this process its own CPUs with taskset"}}
	case err == nil && recent > float64(m.after.cpus):
		return []Finding{{check, Warning, seen + ": more than there are CPUs",
			"stop other programs (top lists them), and wait for the load to fall"}}
	case cpus > someLoad:
		return []Finding{{check, Note, seen, "disturbed blocks are marked; stopping other programs makes the verdicts quicker"}}
	case err == nil && recent > float64(m.after.cpus)/2:
		return []Finding{{check, Note, seen + ": quiet now, busy in the last minute", "make sure that no load returns during the sweep"}}
	}
	return []Finding{{check, OK, seen, ""}}
}

// checkSteal checks the time that the hypervisor gave to other guests.
func checkSteal(m *machine) []Finding {
	const check = "steal"
	elapsed := m.after.total - m.before.total
	if m.after.cpus == 0 || elapsed <= 0 {
		return nil
	}
	const (
		now     = 0.005 // of the time in the window
		ever    = 0.002 // of the time since boot
		percent = 100
	)
	recent, whole := (m.after.steal-m.before.steal)/elapsed, m.after.steal/m.after.total
	const hint = "use a machine whose CPUs are not shared, or a quieter time"
	switch {
	case recent > now:
		return []Finding{{check, Warning, fmt.Sprintf("the hypervisor took %.1f %% of the CPUs' time just now", recent*percent), hint}}
	case whole > ever:
		return []Finding{{check, Note, fmt.Sprintf("the hypervisor took %.2f %% of the CPUs' time since boot", whole*percent), hint}}
	}
	return []Finding{{check, OK, "the hypervisor takes no time", ""}}
}

// A limit of CPU time stops all threads within a block for the rest of a period of usually 100 ms.
func checkQuota(m *machine) []Finding {
	const check = "quota"
	limit, limited := procfs.Tree{FS: m.Files}.CPUQuota()
	cpus := m.cpus()
	switch {
	case !limited && m.exists("proc/self/cgroup"):
		return []Finding{{check, OK, "no limit of CPU time", ""}}
	case !limited:
		return nil
	case cpus > 0 && limit < float64(cpus):
		return []Finding{{check, Error,
			fmt.Sprintf("a control group grants %.2f CPUs' time to the %d CPUs that are used: blocks are stopped midway", limit, cpus),
			"raise the container's CPU limit, or use " + plural(max(1, int(limit)), "thread")}}
	}
	return []Finding{{check, Note, fmt.Sprintf("a control group grants %.2f CPUs' time, enough for the %d CPUs that are used", limit, cpus),
		""}}
}

func plural(n int, noun string) string {
	if n != 1 {
		noun += "s"
	}
	return fmt.Sprintf("%d %s", n, noun)
}

func checkAffinity(m *machine) []Finding {
	const check = "cpus"
	switch {
	case len(m.allowed) == 0 || len(m.online) == 0:
		return nil
	case len(m.allowed) < len(m.online):
		return []Finding{{check, Note, fmt.Sprintf("this process may use %d of %d CPUs: other processes share caches and memory",
			len(m.allowed), len(m.online)), "widen its cpuset (taskset, the container's or the job's) to audit the whole machine"}}
	}
	return []Finding{{check, OK, fmt.Sprintf("all %d CPUs may be used", len(m.online)), ""}}
}

func checkSMT(m *machine) []Finding {
	const check = "smt"
	cores := map[int]bool{}
	shared, known := 0, 0
	for _, cpu := range m.allowed {
		siblings := procfs.ParseCPUList(m.text(fmt.Sprintf("sys/devices/system/cpu/cpu%d/topology/thread_siblings_list", cpu)))
		if len(siblings) == 0 {
			continue
		}
		known++
		if cores[siblings[0]] {
			shared++
		}
		cores[siblings[0]] = true
	}
	switch {
	case known == 0:
		return nil
	case shared > 0:
		return []Finding{{check, Note,
			fmt.Sprintf("%d CPUs are threads of %s: the peak is for %s", known, plural(len(cores), "core"), plural(len(cores), "core")),
			"taskset to one thread a core is often faster, and always steadier"}}
	case m.facts.SMT == "on":
		return []Finding{{check, Note, "each allowed CPU has a core of its own, whose other threads may be used by others", ""}}
	}
	return []Finding{{check, OK, "each CPU is a core of its own", ""}}
}

func checkHypervisor(m *machine) []Finding {
	const check = "virtual machine"
	name := m.facts.Hypervisor
	switch {
	case name == "" && m.facts.CPUModel == "":
		return nil
	case name == "":
		return []Finding{{check, OK, "none", ""}}
	case name == "unknown":
		name = "an unnamed hypervisor"
	}
	return []Finding{{check, Note, "guest of " + name + ": its neighbors share the last-level cache and the memory",
		"compare runs only with runs on the same machine, and look at the sentinels' drift"}}
}
