package sweep

import (
	"strconv"
	"testing"
)

// A launcher's processes must cover each part of the plan once, for any first index.
func TestShardsOfJobsAreParts(t *testing.T) {
	for _, l := range launchers {
		for _, least := range []int{0, 1} {
			if least == 1 && l.index != "SLURM_ARRAY_TASK_ID" {
				continue
			}
			const count = 5
			seen := map[string]bool{}
			for i := least; i < least+count; i++ {
				env := map[string]string{l.index: strconv.Itoa(i), l.count: strconv.Itoa(count),
					"SLURM_ARRAY_TASK_MIN": strconv.Itoa(least), "SLURM_ARRAY_TASK_MAX": strconv.Itoa(least + count - 1)}
				s, ok, err := l.shard(func(name string) (string, bool) { v, ok := env[name]; return v, ok })
				if err != nil || !ok {
					t.Fatalf("%s: process %d: %v, %v", l.name, i, ok, err)
				}
				seen[s.String()] = true
			}
			if len(seen) != count {
				t.Errorf("%s from %d: the processes are parts %v", l.name, least, seen)
			}
		}
	}
}
