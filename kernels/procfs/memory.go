package procfs

import (
	"math"
	"strconv"
	"strings"
)

// Memory returns a field of /proc/meminfo in bytes: "MemTotal", "MemAvailable".
func (t Tree) Memory(key string) (bytes int64, ok bool) {
	number, _ := strings.CutSuffix(t.Field("proc/meminfo", key+":"), "kB")
	kib, err := strconv.ParseInt(strings.TrimSpace(number), 10, 64)
	if err != nil || kib < 0 || kib > math.MaxInt64>>10 {
		return 0, false
	}
	return kib << 10, true
}

// number reads a file that contains one number, or with a key, the number after it; false without a valid
// number.
func (t Tree) number(file, key string) (int64, bool) {
	text := t.Text(file)
	if key != "" {
		text = t.Field(file, key+" ")
	}
	n, err := strconv.ParseInt(text, 10, 64)
	return n, err == nil && n >= 0
}

// memoryLimits calls yield with each memory limit of this process's control groups, in bytes, and its folder.
func (t Tree) memoryLimits(yield func(dir string, limit int64)) {
	for _, dir := range t.Groups("memory") {
		for _, name := range []string{"/memory.max", "/memory.limit_in_bytes"} {
			// No limit is "max" in version 2 and a huge number in version 1.
			if limit, ok := t.number(dir+name, ""); ok && limit > 0 && limit < math.MaxInt64/2 {
				yield(dir, limit)
			}
		}
	}
}

// MemoryLimit returns the lowest memory limit of the control groups in bytes; limited is false without a
// limit.
func (t Tree) MemoryLimit() (bytes int64, limited bool) {
	t.memoryLimits(func(_ string, limit int64) {
		if !limited || limit < bytes {
			bytes, limited = limit, true
		}
	})
	return bytes, limited
}

// AvailableMemory returns how many bytes this process can allocate before the system swaps or kills it. It is
// the machine's available memory, or what a control group's limit leaves if that is less. known is false if
// neither is known.
func (t Tree) AvailableMemory() (bytes int64, known bool) {
	bytes, known = t.Memory("MemAvailable")
	t.memoryLimits(func(dir string, limit int64) {
		used, _ := t.number(dir+"/memory.current", "")
		if used == 0 {
			used, _ = t.number(dir+"/memory.usage_in_bytes", "")
		}
		// The page cache counts as used but can be reclaimed.
		for _, key := range []string{"active_file", "inactive_file"} {
			files, ok := t.number(dir+"/memory.stat", "total_"+key)
			if !ok {
				files, _ = t.number(dir+"/memory.stat", key)
			}
			used -= files
		}
		if left := max(limit-max(used, 0), 0); !known || left < bytes {
			bytes, known = left, true
		}
	})
	return bytes, known
}
