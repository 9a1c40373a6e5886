package cpu

import (
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/kernels/procfs"
	"github.com/google/go-cmp/cmp"
)

func tree(files map[string]string) fstest.MapFS {
	fs := fstest.MapFS{}
	for name, content := range files {
		fs[name] = &fstest.MapFile{Data: []byte(content + "\n")}
	}
	return fs
}

func cached(files map[string]string, cpu, index, level int, kind, size, shared string) {
	dir := fmt.Sprintf("sys/devices/system/cpu/cpu%d/cache/index%d/", cpu, index)
	files[dir+"level"] = fmt.Sprint(level)
	files[dir+"type"] = kind
	files[dir+"size"] = size
	files[dir+"shared_cpu_list"] = shared
}

// xeon is a guest with two cores of an Emerald Rapids, one hardware thread each.
func xeon() map[string]string {
	files := map[string]string{
		"proc/cpuinfo": "processor\t: 0\nvendor_id\t: GenuineIntel\nmodel name\t: INTEL(R) XEON(R)  PLATINUM 8592+\n" +
			"microcode\t: 0x21000291\nflags\t: fpu avx512f amx_tile\n\nprocessor\t: 1\nmodel name\t: another",
		"proc/meminfo":     "MemTotal:       16384000 kB\nMemFree:        1 kB",
		"proc/self/cgroup": "0::/user.slice/x",
	}
	for cpu := range 2 {
		own := fmt.Sprint(cpu)
		cached(files, cpu, 0, 1, "Data", "48K", own)
		cached(files, cpu, 1, 1, "Instruction", "32K", own)
		cached(files, cpu, 2, 2, "Unified", "2048K", own)
		cached(files, cpu, 3, 3, "Unified", "320M", "0-1")
		files[fmt.Sprintf("sys/devices/system/cpu/cpu%d/topology/thread_siblings_list", cpu)] = own
	}
	return files
}

// epyc has four CPUs: two clusters of one core with two hardware threads, each with a last-level cache.
func epyc() map[string]string {
	files := map[string]string{
		"proc/cpuinfo":                  "processor\t: 0\nmodel name\t: AMD EPYC 9654 96-Core Processor\nmicrocode\t: 0xa101148",
		"proc/meminfo":                  "MemTotal: 1048576 kB",
		"sys/devices/system/cpu/online": "0-3",
		"proc/self/cgroup":              "4:memory:/job\n2:cpu,cpuacct:/job\n1:name=systemd:/",
		"sys/fs/cgroup/memory/job/memory.limit_in_bytes":  "536870912",
		"sys/fs/cgroup/memory/memory.limit_in_bytes":      "9223372036854771712",
		"sys/fs/cgroup/cpu,cpuacct/job/cpu.cfs_quota_us":  "250000",
		"sys/fs/cgroup/cpu,cpuacct/job/cpu.cfs_period_us": "100000",
		"sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us":      "-1",
		"sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us":     "100000",
	}
	for cpu := range 4 {
		pair := []string{"0-1", "2-3"}[cpu/2]
		cached(files, cpu, 0, 1, "Data", "32K", pair)
		cached(files, cpu, 2, 2, "Unified", "1024K", pair)
		cached(files, cpu, 3, 3, "Unified", "32768K", pair)
		files[fmt.Sprintf("sys/devices/system/cpu/cpu%d/topology/thread_siblings_list", cpu)] = pair
	}
	return files
}

func TestHostSpec(t *testing.T) {
	arm := map[string]string{
		"proc/cpuinfo": "processor\t: 0\nBogoMIPS\t: 2100.00\nFeatures\t: fp asimd atomics asimdhp asimddp sve i8mm bf16\n" +
			"CPU implementer\t: 0x41\nCPU part\t: 0xd40",
		"proc/meminfo":                  "MemTotal: 2048 kB",
		"sys/devices/system/cpu/online": "0-1",
	}
	board := map[string]string{
		"proc/cpuinfo":                       "processor\t: 0\nCPU implementer\t: 0x99\nCPU part\t: 0x001\n\nHardware\t: ignored",
		"sys/firmware/devicetree/base/model": "Some Board Rev 1.2\x00",
	}
	throttled := xeon()
	throttled["sys/fs/cgroup/user.slice/x/cpu.max"] = "max 100000"
	throttled["sys/fs/cgroup/user.slice/cpu.max"] = "150000 100000"
	throttled["sys/fs/cgroup/user.slice/memory.max"] = "1073741824"
	broken := map[string]string{
		"proc/cpuinfo":     "no colon here\nmodel name",
		"proc/meminfo":     "MemTotal: lots kB",
		"proc/self/cgroup": "nonsense\n0::\n:::::",
	}
	cached(broken, 0, 0, 1, "Data", "huge", "0")
	cached(broken, 0, 1, 2, "Unified", "-5K", "0")
	broken["sys/devices/system/cpu/cpu0/cache/index2/level"] = "two"

	intelCaches := []kernels.Cache{{Level: 1, Bytes: 48 << 10, Count: 2}, {Level: 2, Bytes: 2 << 20, Count: 2},
		{Level: 3, Bytes: 320 << 20, Count: 1}}
	microcode := map[string]string{"microcode": "0x21000291"}
	for _, tc := range []struct {
		name     string
		files    map[string]string
		affinity []int
		fallback func(int) int64
		want     kernels.Spec
	}{
		{"intel", xeon(), []int{0, 1}, nil, kernels.Spec{Name: "INTEL(R) XEON(R) PLATINUM 8592+", Units: 2, MemoryBytes: 16384000 << 10,
			Caches: intelCaches, LastLevelCacheBytes: 320 << 20, Versions: microcode}},
		{"intel, one core of two", xeon(), []int{1}, nil,
			kernels.Spec{Name: "INTEL(R) XEON(R) PLATINUM 8592+", Units: 1, MemoryBytes: 16384000 << 10,
				Caches: []kernels.Cache{{Level: 1, Bytes: 48 << 10, Count: 1}, {Level: 2, Bytes: 2 << 20, Count: 1},
					{Level: 3, Bytes: 320 << 20, Count: 1}},
				LastLevelCacheBytes: 320 << 20, Versions: microcode}},
		{"quota and memory limit of a group above", throttled, []int{0, 1}, nil,
			kernels.Spec{Name: "INTEL(R) XEON(R) PLATINUM 8592+", Units: 1, MemoryBytes: 1 << 30,
				Caches: intelCaches, LastLevelCacheBytes: 320 << 20, Versions: microcode}},
		{"amd, control groups of version 1", epyc(), []int{0, 1, 2, 3}, nil,
			kernels.Spec{Name: "AMD EPYC 9654 96-Core Processor", Units: 2, MemoryBytes: 512 << 20,
				Caches: []kernels.Cache{{Level: 1, Bytes: 32 << 10, Count: 2}, {Level: 2, Bytes: 1 << 20, Count: 2},
					{Level: 3, Bytes: 32 << 20, Count: 2}},
				LastLevelCacheBytes: 64 << 20, Versions: map[string]string{"microcode": "0xa101148"}}},
		{"arm64 without cache folders", arm, nil, func(level int) int64 { return []int64{0, 64 << 10, 1 << 20, 32 << 20}[level] },
			kernels.Spec{Name: "Neoverse V1", Units: 2, MemoryBytes: 2 << 20,
				Features: []string{"asimd", "asimdhp", "asimddp", "sve", "i8mm", "bf16"},
				Caches: []kernels.Cache{{Level: 1, Bytes: 64 << 10, Count: 2}, {Level: 2, Bytes: 1 << 20, Count: 2},
					{Level: 3, Bytes: 32 << 20, Count: 1}},
				LastLevelCacheBytes: 32 << 20}},
		{"unknown core on a board", board, []int{0, 1, 2, 3}, nil,
			kernels.Spec{Name: "ARM implementer 0x99 part 0x001 (Some Board Rev 1.2)", Units: 4, LastLevelCacheBytes: assumedLLC}},
		{"nothing at all", nil, []int{3, 7}, nil, kernels.Spec{Name: runtime.GOARCH + " CPU", Units: 2, LastLevelCacheBytes: assumedLLC}},
		{"nonsense", broken, []int{0}, nil, kernels.Spec{Name: runtime.GOARCH + " CPU", Units: 1, LastLevelCacheBytes: assumedLLC}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got := host{Tree: procfs.Tree{FS: tree(tc.files)}, affinity: tc.affinity, cacheBytes: tc.fallback}.spec()
			tc.want.ID, tc.want.Kind = "cpu", kernels.CPU
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("spec (-want +got):\n%s", diff)
			}
		})
	}
}

func TestPhysicalCores(t *testing.T) {
	for _, tc := range []struct {
		name     string
		files    map[string]string
		affinity []int
		want     int
	}{
		{"one thread a core", xeon(), []int{0, 1}, 2},
		{"two threads a core", epyc(), []int{0, 1, 2, 3}, 2},
		{"one thread of each of two cores", epyc(), []int{1, 3}, 2},
		{"no topology", nil, []int{0, 1}, 0},
	} {
		if got := (host{Tree: procfs.Tree{FS: tree(tc.files)}, affinity: tc.affinity}).physicalCores(); got != tc.want {
			t.Errorf("%s: %d cores, want %d", tc.name, got, tc.want)
		}
	}
}

func FuzzCPUTexts(f *testing.F) {
	f.Add("0-3,8", "48K", "4:cpu,cpuacct:/a\n0::/b", "100000 100000")
	f.Fuzz(func(t *testing.T, list, size, groups, quota string) {
		files := map[string]string{
			"proc/self/cgroup": groups, "proc/cpuinfo": list + ":" + size, "proc/meminfo": "MemTotal:" + size,
			"sys/fs/cgroup/cpu.max": quota, "sys/devices/system/cpu/online": list,
		}
		cached(files, 0, 0, 3, "Unified", size, list)
		s := host{Tree: procfs.Tree{FS: tree(files)}, affinity: []int{0}}.spec()
		if s.Units < 1 || s.MemoryBytes < 0 || s.LastLevelCacheBytes <= 0 || s.Name == "" {
			t.Errorf("spec out of nonsense: %+v", s)
		}
	})
}

func TestFeaturesOf(t *testing.T) {
	if f := featuresOf(0); f.AMX || f.AVX2 || f.noAMX != "this CPU has no AMX" {
		t.Errorf("no features: %+v", f)
	}
	const avx512, tile, bf16, notEnabled = 1 << 3, 1 << 7, 1 << 8, 1 << 11
	if f := featuresOf(notEnabled | avx512); f.AMX || !strings.Contains(f.noAMX, "XCR0") {
		t.Errorf("AMX that the system does not enable: %+v", f)
	}
	if f := featuresOf(tile | bf16 | avx512); !f.AMX || !f.AMXBF16 || f.AMXINT8 || f.noAMX != "" {
		t.Errorf("AMX with bf16 alone: %+v", f)
	}
	if f := featuresOf(tile | bf16); f.AMX || f.AMXBF16 || f.noAMX == "" {
		t.Errorf("AMX without AVX-512: %+v", f)
	}
}

func TestDetectAgreesWithProc(t *testing.T) {
	flags := strings.Fields(thisHost().CPUInfo()["flags"])
	if len(flags) == 0 || runtime.GOARCH != "amd64" {
		t.Skip("/proc/cpuinfo has no flags here")
	}
	f := detected()
	for _, x := range []struct {
		flag string
		got  bool
	}{
		{"avx2", f.AVX2}, {"fma", f.FMA}, {"f16c", f.F16C}, {"avx_vnni", f.AVXVNNI},
		{"avx512_vnni", f.AVX512VNNI}, {"avx512_bf16", f.AVX512BF16}, {"avx512bw", f.AVX512},
	} {
		if want := slices.Contains(flags, x.flag); x.got != want {
			t.Errorf("%s: detected %v, /proc/cpuinfo says %v", x.flag, x.got, want)
		}
	}
	if f.AMX && !amxEmulated && !slices.Contains(flags, "amx_tile") {
		t.Error("AMX detected, and /proc/cpuinfo lacks amx_tile")
	}
	if f.AMX == (f.noAMX != "") {
		t.Errorf("AMX is %v with reason %q", f.AMX, f.noAMX)
	}
}
