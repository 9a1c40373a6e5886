package procfs

import (
	"math"
	"strconv"
	"strings"
)

// Memory is a line of /proc/meminfo in bytes: "MemTotal", "MemAvailable".
func (t Tree) Memory(key string) (bytes int64, ok bool) {
	number, _ := strings.CutSuffix(t.Field("proc/meminfo", key+":"), "kB")
	kib, err := strconv.ParseInt(strings.TrimSpace(number), 10, 64)
	if err != nil || kib < 0 || kib > math.MaxInt64>>10 {
		return 0, false
	}
	return kib << 10, true
}

// number is the number in a file that holds nothing else, or behind key on a line of it;
// false where there is none.
func (t Tree) number(file, key string) (int64, bool) {
	text := t.Text(file)
	if key != "" {
		text = t.Field(file, key+" ")
	}
	n, err := strconv.ParseInt(text, 10, 64)
	return n, err == nil && n >= 0
}

// memoryLimits calls yield with each limit of memory that a control group sets this
// process, in bytes, and the folder that holds it.
func (t Tree) memoryLimits(yield func(dir string, limit int64)) {
	for _, dir := range t.Groups("memory") {
		for _, name := range []string{"/memory.max", "/memory.limit_in_bytes"} {
			// "max" is none, and so are version 1's numbers that no machine has.
			if limit, ok := t.number(dir+name, ""); ok && limit > 0 && limit < math.MaxInt64/2 {
				yield(dir, limit)
			}
		}
	}
}

// MemoryLimit is the least that a control group allows of memory, in bytes; false when
// there is no limit.
func (t Tree) MemoryLimit() (bytes int64, limited bool) {
	t.memoryLimits(func(_ string, limit int64) {
		if !limited || limit < bytes {
			bytes, limited = limit, true
		}
	})
	return bytes, limited
}

// AvailableMemory is how many bytes this process can take before the system swaps or
// ends it: what the machine has available, or less where a control group's limit leaves
// less. False when neither is known.
func (t Tree) AvailableMemory() (bytes int64, known bool) {
	bytes, known = t.Memory("MemAvailable")
	t.memoryLimits(func(dir string, limit int64) {
		used, _ := t.number(dir+"/memory.current", "")
		if used == 0 {
			used, _ = t.number(dir+"/memory.usage_in_bytes", "")
		}
		// Pages of files are counted as used, and given up when memory is short.
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
