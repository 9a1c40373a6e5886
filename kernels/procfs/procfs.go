// Package procfs reads /proc and /sys of a Linux machine. Containers and sandboxes may hide any file; missing
// or malformed files read as empty. The package does not depend on devices or on other packages of this
// module.
package procfs

import (
	"io/fs"
	"strconv"
	"strings"
)

// Tree is the root of a file system with proc and sys in it; this machine's is os.DirFS("/").
type Tree struct{ fs.FS }

// Text returns a file's content without surrounding white space and NULs; it is empty if the file can't be
// read.
func (t Tree) Text(name string) string {
	b, err := fs.ReadFile(t.FS, name)
	if err != nil {
		return ""
	}
	return strings.Trim(string(b), " \t\r\n\x00")
}

// Field returns the trimmed text after key on the first line that begins with key, such as "MemTotal:".
func (t Tree) Field(file, key string) string {
	for line := range strings.Lines(t.Text(file)) {
		if rest, ok := strings.CutPrefix(line, key); ok {
			return strings.TrimSpace(rest)
		}
	}
	return ""
}

// CPUInfo returns the first value of each key in /proc/cpuinfo. These are the first processor's values and
// keys listed once, such as "Hardware" on 32-bit ARM and old arm64 kernels.
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

// maxCPU bounds CPU numbers, against malformed lists.
const maxCPU = 1 << 16

// ParseCPUList parses the kernel's CPU lists, such as "0-3,8,10-11". Invalid parts are skipped.
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
