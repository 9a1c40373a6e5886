package cpu

import (
	"fmt"
	"io/fs"
	"math"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/kernels/procfs"
)

// host is a machine seen through procfs and sysfs.
type host struct {
	procfs.Tree
	affinity   []int
	cacheBytes func(level int) int64
}

// assumedLLC is used if no cache is known. It exceeds common last-level caches, so weights still rotate out
// of cache.
const assumedLLC = 64 << 20

func (h host) spec() kernels.Spec {
	cpuinfo := h.CPUInfo()
	s := kernels.Spec{
		ID:          "cpu",
		Kind:        kernels.CPU,
		Name:        modelName(cpuinfo, h.Text("sys/firmware/devicetree/base/model")),
		Units:       h.usableCores(),
		MemoryBytes: h.memory(),
		Caches:      h.caches(),
		Features:    armFeatures(cpuinfo["Features"]),
	}
	if code := cpuinfo["microcode"]; code != "" {
		s.Versions = map[string]string{"microcode": code}
	}
	for _, c := range s.Caches { // levels ascend: the last one counts
		s.LastLevelCacheBytes = c.Bytes * int64(c.Count)
	}
	if s.LastLevelCacheBytes == 0 {
		s.LastLevelCacheBytes = assumedLLC
	}
	return s
}

// armParts names common server and board cores by implementer and part, as in the MIDR register and
// /proc/cpuinfo.
var armParts = map[string]string{
	"0x41/0xd03": "Cortex-A53", "0x41/0xd07": "Cortex-A57", "0x41/0xd08": "Cortex-A72",
	"0x41/0xd0b": "Cortex-A76", "0x41/0xd0c": "Neoverse N1", "0x41/0xd40": "Neoverse V1",
	"0x41/0xd49": "Neoverse N2", "0x41/0xd4f": "Neoverse V2", "0x41/0xd83": "Neoverse V3",
	"0x41/0xd8e": "Neoverse N3", "0xc0/0xac3": "Ampere-1", "0xc0/0xac4": "Ampere-1A",
}

// modelName returns the processor's name. x86 kernels report it; arm64 kernels report numbers, and boards
// have a name in the device tree.
func modelName(cpuinfo map[string]string, board string) string {
	if name := cpuinfo["model name"]; name != "" {
		return strings.Join(strings.Fields(name), " ")
	}
	implementer, part := strings.ToLower(cpuinfo["CPU implementer"]), strings.ToLower(cpuinfo["CPU part"])
	core := armParts[implementer+"/"+part]
	if core == "" && part != "" {
		core = fmt.Sprintf("ARM implementer %s part %s", implementer, part)
	}
	for _, name := range []string{cpuinfo["Model"], board, cpuinfo["Hardware"]} {
		switch {
		case name == "":
		case core != "":
			return fmt.Sprintf("%s (%s)", core, name)
		default:
			return name
		}
	}
	if core != "" {
		return core
	}
	return runtime.GOARCH + " CPU"
}

func armFeatures(line string) []string {
	var out []string
	for _, f := range strings.Fields(line) {
		switch f {
		case "asimd", "asimdhp", "asimddp", "i8mm", "bf16", "sve", "sve2", "sme":
			out = append(out, f)
		}
	}
	return out
}

// usableCores is the affinity, limited by the control group's CPU quota. The quota is rounded down, because
// one thread too many throttles all.
func (h host) usableCores() int {
	n := len(h.affinity)
	if n == 0 {
		n = len(procfs.ParseCPUList(h.Text("sys/devices/system/cpu/online")))
	}
	if n == 0 {
		n = runtime.NumCPU()
	}
	if quota, ok := h.CPUQuota(); ok {
		n = min(n, max(1, int(math.Floor(quota))))
	}
	return n
}

func (h host) memory() int64 {
	total, _ := h.Memory("MemTotal")
	if limit, ok := h.MemoryLimit(); ok && (total == 0 || limit < total) {
		return limit
	}
	return total
}

// caches lists data and unified caches by ascending level, counting instances that serve the affinity's CPUs.
func (h host) caches() []kernels.Cache {
	type instance struct {
		level  int
		shared string
	}
	seen := map[instance]bool{}
	var out []kernels.Cache
	cpus := h.affinity
	if len(cpus) == 0 {
		cpus = procfs.ParseCPUList(h.Text("sys/devices/system/cpu/online"))
	}
	for _, cpu := range cpus {
		root := fmt.Sprintf("sys/devices/system/cpu/cpu%d/cache", cpu)
		entries, err := fs.ReadDir(h.FS, root)
		if err != nil {
			continue
		}
		for _, e := range entries {
			dir := root + "/" + e.Name()
			level, err := strconv.Atoi(h.Text(dir + "/level"))
			size := parseSize(h.Text(dir + "/size"))
			if err != nil || size == 0 || h.Text(dir+"/type") == "Instruction" {
				continue
			}
			shared := h.Text(dir + "/shared_cpu_list")
			if shared == "" {
				shared = strconv.Itoa(cpu)
			}
			if seen[instance{level, shared}] {
				continue
			}
			seen[instance{level, shared}] = true
			i := slices.IndexFunc(out, func(c kernels.Cache) bool { return c.Level == level && c.Bytes == size })
			if i < 0 {
				out = append(out, kernels.Cache{Level: level, Bytes: size})
				i = len(out) - 1
			}
			out[i].Count++
		}
	}
	if len(out) == 0 && h.cacheBytes != nil {
		for level := 1; level <= 3; level++ {
			if size := h.cacheBytes(level); size > 0 {
				// Below the last level, each core has its own cache.
				count := max(1, len(cpus))
				if level == 3 {
					count = 1
				}
				out = append(out, kernels.Cache{Level: level, Bytes: size, Count: count})
			}
		}
	}
	slices.SortStableFunc(out, func(a, b kernels.Cache) int { return a.Level - b.Level })
	return out
}

// physicalCores is the number of cores behind the affinity's CPUs, 0 if unknown. Hardware threads of a core
// share its execution units.
func (h host) physicalCores() int {
	cores := map[string]bool{}
	for _, cpu := range h.affinity {
		siblings := h.Text(fmt.Sprintf("sys/devices/system/cpu/cpu%d/topology/thread_siblings_list", cpu))
		if siblings == "" {
			return 0
		}
		cores[siblings] = true
	}
	return len(cores)
}

// parseSize reads sysfs's "48K", "260M" or plain bytes; other text gives 0.
func parseSize(s string) int64 {
	shift := 0
	switch {
	case strings.HasSuffix(s, "K"):
		shift = 10
	case strings.HasSuffix(s, "M"):
		shift = 20
	case strings.HasSuffix(s, "G"):
		shift = 30
	}
	n, err := strconv.ParseInt(strings.TrimRight(s, "KMG"), 10, 64)
	if err != nil || n < 0 || n > math.MaxInt64>>shift {
		return 0
	}
	return n << shift
}
