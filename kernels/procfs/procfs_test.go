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
		"proc/cpuinfo":   "processor\t: 0\nmodel name\t: XEON(R)  8592+\nflags\t\t: fpu avx\n\nprocessor\t: 1\nmodel name\t: another\nHardware : board\n",
		"proc/meminfo":   "MemTotal:       16384000 kB\nMemTotalX: 1 kB\nMemAvailable:\t7kB\nSwapTotal: many kB\nSwapFree: -1 kB\nHuge: 99999999999999999 kB\n",
		"sys/board/name": "\x00 board\n\x00",
	})
	want := map[string]string{"processor": "0", "model name": "XEON(R)  8592+", "flags": "fpu avx", "Hardware": "board"}
	if d := cmp.Diff(want, m.CPUInfo()); d != "" {
		t.Errorf("the first block:\n%s", d)
	}
	for key, want := range map[string]int64{"MemTotal": 16384000 << 10, "MemAvailable": 7 << 10, "SwapTotal": -1, "SwapFree": -1, "Huge": -1, "Absent": -1} {
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
	if _, ok := nothing.Memory("MemTotal"); ok || nothing.Text("proc/version") != "" || nothing.Field("proc/meminfo", "MemTotal:") != "" || len(nothing.CPUInfo()) > 0 {
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
