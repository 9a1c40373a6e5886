package procfs

import (
	"slices"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
)

func tree(files map[string]string) Tree {
	out := fstest.MapFS{}
	for name, content := range files {
		out[name] = &fstest.MapFile{Data: []byte(content)}
	}
	return Tree{out}
}

func TestTree(t *testing.T) {
	m := tree(map[string]string{
		"proc/cpuinfo": "processor\t: 0\nmodel name\t: XEON(R)  8592+\nflags\t\t: fpu avx\n\nprocessor\t: 1\nmodel name\t: another\n" +
			"Hardware : board\n",
		"proc/meminfo": "MemTotal:       16384000 kB\nMemTotalX: 1 kB\nMemAvailable:\t7kB\nSwapTotal: many kB\nSwapFree: -1 kB\n" +
			"Huge: 99999999999999999 kB\n",
		"sys/board/name": "\x00 board\n\x00",
	})
	want := map[string]string{"processor": "0", "model name": "XEON(R)  8592+", "flags": "fpu avx", "Hardware": "board"}
	if d := cmp.Diff(want, m.CPUInfo()); d != "" {
		t.Errorf("the first block:\n%s", d)
	}
	for key, want := range map[string]int64{"MemTotal": 16384000 << 10, "MemAvailable": 7 << 10, "SwapTotal": -1, "SwapFree": -1,
		"Huge": -1, "Absent": -1} {
		if got, ok := m.Memory(key); ok != (want >= 0) || ok && got != want {
			t.Errorf("%s is %d, %v; expected %d", key, got, ok, want)
		}
	}
	if got := m.Text("sys/board/name"); got != "board" {
		t.Errorf("text %q", got)
	}
	if got := m.Field("proc/cpuinfo", "flags"); got != ": fpu avx" {
		t.Errorf("field %q", got)
	}
	nothing := tree(nil)
	if _, ok := nothing.Memory("MemTotal"); ok || nothing.Text("proc/version") != "" || nothing.Field("proc/meminfo", "MemTotal:") != "" ||
		len(nothing.CPUInfo()) > 0 {
		t.Error("a machine without proc tells something")
	}
}

func TestParseCPUList(t *testing.T) {
	for list, want := range map[string][]int{
		"": nil, "0": {0}, "0-3,8,10-11\n": {0, 1, 2, 3, 8, 10, 11}, "0,2-3, 8": {0, 2, 3, 8},
		"3-1": nil, "a,2": {2}, "x,1-y,-2,3": {3}, "0-99999999999": nil, "0-9999999": nil,
	} {
		if got := ParseCPUList(list); !slices.Equal(got, want) {
			t.Errorf("%q: got %v, want %v", list, got, want)
		}
	}
}

func TestControlGroups(t *testing.T) {
	for _, c := range []struct {
		name   string
		files  map[string]string
		groups []string // of "cpu"
		quota  float64
	}{
		{"no groups", nil, []string{"sys/fs/cgroup", "sys/fs/cgroup/cpu"}, 0},
		{"version 2", map[string]string{
			"proc/self/cgroup":                 "0::/user.slice/job\n",
			"sys/fs/cgroup/user.slice/cpu.max": "250000 100000\n", "sys/fs/cgroup/user.slice/job/cpu.max": "max 100000\n",
		}, []string{
			"sys/fs/cgroup/user.slice/job", "sys/fs/cgroup/user.slice", "sys/fs/cgroup",
			"sys/fs/cgroup/unified/user.slice/job", "sys/fs/cgroup/unified/user.slice", "sys/fs/cgroup/unified",
			"sys/fs/cgroup", "sys/fs/cgroup/cpu",
		}, 2.5},
		{"version 1", map[string]string{
			"proc/self/cgroup":                       "4:memory:/m\n2:cpu,cpuacct:/job\nrubbish\n",
			"sys/fs/cgroup/cpu/job/cpu.cfs_quota_us": "150000", "sys/fs/cgroup/cpu/job/cpu.cfs_period_us": "100000",
			"sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us": "-1", "sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us": "100000",
		}, []string{
			"sys/fs/cgroup/cpu,cpuacct/job", "sys/fs/cgroup/cpu,cpuacct", "sys/fs/cgroup/cpu/job", "sys/fs/cgroup/cpu",
			"sys/fs/cgroup", "sys/fs/cgroup/cpu",
		}, 1.5},
		{"a container that sees its group as the root", map[string]string{
			"proc/self/cgroup": "0::/kubepods/x\n", "sys/fs/cgroup/cpu.max": "50000 100000",
		}, nil, 0.5},
	} {
		m := tree(c.files)
		if got := m.Groups("cpu"); c.groups != nil && !slices.Equal(got, c.groups) {
			t.Errorf("%s: groups %q, want %q", c.name, got, c.groups)
		}
		if got, limited := m.CPUQuota(); got != c.quota || limited != (c.quota > 0) {
			t.Errorf("%s: quota %g, %v, want %g", c.name, got, limited, c.quota)
		}
	}
}

func TestAvailableMemory(t *testing.T) {
	const mib = 1 << 20
	for _, c := range []struct {
		name             string
		files            map[string]string
		limit, available int64 // -1 for unknown
	}{
		{"nothing", nil, -1, -1},
		{"no groups", map[string]string{"proc/meminfo": "MemTotal: 8192 kB\nMemAvailable: 2048 kB\n"}, -1, 2 * mib},
		{"version 2, the group above is full of files", map[string]string{
			"proc/meminfo": "MemAvailable: 1048576 kB\n", "proc/self/cgroup": "0::/a/b\n",
			"sys/fs/cgroup/a/b/memory.max": "max\n", "sys/fs/cgroup/a/b/memory.current": "104857600\n",
			"sys/fs/cgroup/a/memory.max": "524288000\n", "sys/fs/cgroup/a/memory.current": "419430400\n",
			"sys/fs/cgroup/a/memory.stat": "anon 104857600\nfile 314572800\nactive_file 209715200\ninactive_file 104857600\n",
		}, 500 * mib, 400 * mib},
		{"version 1", map[string]string{
			"proc/meminfo": "MemAvailable: 1048576 kB\n", "proc/self/cgroup": "4:memory:/job\n",
			"sys/fs/cgroup/memory/job/memory.limit_in_bytes": "536870912\n",
			"sys/fs/cgroup/memory/job/memory.usage_in_bytes": "268435456\n",
			"sys/fs/cgroup/memory/job/memory.stat":           "active_file 1\ntotal_active_file 0\ntotal_inactive_file 134217728\n",
			"sys/fs/cgroup/memory/memory.limit_in_bytes":     "9223372036854771712\n",
		}, 512 * mib, 384 * mib},
		{"the machine has less than the group", map[string]string{
			"proc/meminfo": "MemAvailable: 1024 kB\n", "proc/self/cgroup": "0::/\n", "sys/fs/cgroup/memory.max": "10485760\n",
		}, 10 * mib, mib},
		{"over the limit", map[string]string{"sys/fs/cgroup/memory.max": "4096", "sys/fs/cgroup/memory.current": "8192"}, 4096, 0},
		{"more files than use", map[string]string{
			"sys/fs/cgroup/memory.max": "4096", "sys/fs/cgroup/memory.current": "1024", "sys/fs/cgroup/memory.stat": "active_file 2048",
		}, 4096, 4096},
		{"nonsense", map[string]string{
			"proc/meminfo": "MemAvailable: much kB\n", "sys/fs/cgroup/memory.max": "-1", "sys/fs/cgroup/memory.limit_in_bytes": "0",
		}, -1, -1},
	} {
		m := tree(c.files)
		if got, ok := m.MemoryLimit(); ok != (c.limit >= 0) || ok && got != c.limit {
			t.Errorf("%s: limit %d, %v; expected %d", c.name, got, ok, c.limit)
		}
		if got, ok := m.AvailableMemory(); ok != (c.available >= 0) || ok && got != c.available {
			t.Errorf("%s: available %d, %v; expected %d", c.name, got, ok, c.available)
		}
	}
}
