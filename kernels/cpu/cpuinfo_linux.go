package cpu

import (
	"errors"

	"golang.org/x/sys/unix"
)

// affinity lists the CPUs that this process may use, nil if unknown.
func affinity() []int {
	for width := 1024; width <= 1<<17; width *= 2 {
		set := unix.NewCPUSet(width)
		err := unix.SchedGetaffinityDynamic(0, set)
		if errors.Is(err, unix.EINVAL) { // the kernel's mask is wider
			continue
		}
		if err != nil {
			return nil
		}
		var out []int
		for cpu := range width {
			if set.IsSet(cpu) {
				out = append(out, cpu)
			}
		}
		return out
	}
	return nil
}
