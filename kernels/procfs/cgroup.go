package procfs

import (
	"path"
	"slices"
	"strconv"
	"strings"
)

// Groups lists the folders that may hold this process's limits for a controller, "cpu" or "memory": its own
// control group and all parents. It covers versions 1 and 2 of control groups.
func (t Tree) Groups(controller string) []string {
	var out []string
	up := func(mount, group string) {
		for group = path.Clean("/" + group); ; group = path.Dir(group) {
			out = append(out, strings.TrimPrefix(path.Join(mount, group), "/"))
			if group == "/" {
				return
			}
		}
	}
	for line := range strings.Lines(t.Text("proc/self/cgroup")) {
		// The format is hierarchy:controllers:path; version 2 leaves controllers empty.
		fields := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(fields) != 3 {
			continue
		}
		switch {
		case fields[1] == "":
			up("sys/fs/cgroup", fields[2])
			up("sys/fs/cgroup/unified", fields[2])
		case slices.Contains(strings.Split(fields[1], ","), controller):
			up("sys/fs/cgroup/"+fields[1], fields[2])
			up("sys/fs/cgroup/"+controller, fields[2])
		}
	}
	// A container may see its own group as the root, under a path from outside.
	return append(out, "sys/fs/cgroup", "sys/fs/cgroup/"+controller)
}

// CPUQuota returns the lowest CPU limit of the control groups, in CPUs; limited is false without a limit.
func (t Tree) CPUQuota() (cpus float64, limited bool) {
	note := func(quota, period string) {
		q, errQ := strconv.ParseFloat(quota, 64) // "max" and -1 mean no limit
		p, errP := strconv.ParseFloat(period, 64)
		if errQ == nil && errP == nil && q > 0 && p > 0 && (!limited || q/p < cpus) {
			cpus, limited = q/p, true
		}
	}
	for _, dir := range t.Groups("cpu") {
		if f := strings.Fields(t.Text(dir + "/cpu.max")); len(f) == 2 {
			note(f[0], f[1])
		}
		note(t.Text(dir+"/cpu.cfs_quota_us"), t.Text(dir+"/cpu.cfs_period_us"))
	}
	return cpus, limited
}
