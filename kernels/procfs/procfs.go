// Package procfs reads what a Linux machine says of itself below /proc and /sys.
// Anything there may be absent, since a container or a sandbox shows as little as
// it likes; what is not there, or not as expected, reads as empty. The package
// knows no device and imports nothing of this module: devices, run files and the
// looks at the machine's health all read through it.
package procfs

import (
	"io/fs"
	"strconv"
	"strings"
)

// Tree is the root of a file system with proc and sys in it: os.DirFS("/") for
// this machine.
type Tree struct{ fs.FS }

// Text is a file's content without surrounding white space and NULs, empty when
// it can't be read.
func (t Tree) Text(name string) string {
	b, err := fs.ReadFile(t.FS, name)
	if err != nil {
		return ""
	}
	return strings.Trim(string(b), " \t\r\n\x00")
}

// Field is what follows key on the first line of a file that begins with it,
// without white space around it: key is "MemTotal:" or "Cpus_allowed_list:".
func (t Tree) Field(file, key string) string {
	for line := range strings.Lines(t.Text(file)) {
		if rest, ok := strings.CutPrefix(line, key); ok {
			return strings.TrimSpace(rest)
		}
	}
	return ""
}

// CPUInfo is the first processor's block of /proc/cpuinfo together with keys that
// stand elsewhere in it once ("Hardware" on 32-bit ARM and old arm64 kernels).
func (t Tree) CPUInfo() map[string]string {
	out := map[string]string{}
	for line := range strings.Lines(t.Text("proc/cpuinfo")) {
		key, value, ok := strings.Cut(line, ":")
		key = strings.TrimSpace(key)
		if _, seen := out[key]; ok && !seen {
			out[key] = strings.TrimSpace(value)
		}
	}
	return out
}

// maxCPU is above the number of any CPU: a list with more is none.
const maxCPU = 1 << 16

// ParseCPUList reads the kernel's lists of CPUs: "0-3,8,10-11". What can't be read
// is left out.
func ParseCPUList(list string) []int {
	var out []int
	for part := range strings.SplitSeq(list, ",") {
		from, to, isRange := strings.Cut(strings.TrimSpace(part), "-")
		first, err := strconv.Atoi(from)
		if err != nil || first < 0 {
			continue
		}
		last := first
		if isRange {
			if last, err = strconv.Atoi(to); err != nil {
				continue
			}
		}
		if last > maxCPU {
			continue
		}
		for cpu := first; cpu <= last; cpu++ {
			out = append(out, cpu)
		}
	}
	return out
}
