package worker

import (
	"syscall"
	"time"
)

// cpuTime is the CPU time of this process.
func cpuTime() time.Duration {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// Quiet waits until this process uses no CPU: threads of libraries poll for a while after their work. It gives up
// after a tenth of a second.
func Quiet() {
	const step, most = time.Millisecond, 100
	for range most {
		before := cpuTime()
		time.Sleep(step)
		if cpuTime()-before < step/10 {
			return
		}
	}
}
