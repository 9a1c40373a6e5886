package cpu

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

// stealMeter reads how much time the hypervisor gave to others, from the first
// line of /proc/stat. The kernel counts it in ticks of 10 ms.
type stealMeter struct{ file *os.File }

// A machine on which the file takes longer than this to read (the kernel writes
// all of it, and with hundreds of CPUs it is long) is not asked: the reading
// would cost more of a sweep than it tells.
const slowestStat = 300 * time.Microsecond

func (m *stealMeter) open() {
	f, err := os.Open("/proc/stat")
	if err != nil {
		return
	}
	m.file = f
	m.begin()
	start := time.Now()
	m.begin()
	if time.Since(start) > slowestStat {
		m.close()
	}
}

// begin returns the ticks stolen so far, -1 when unknown.
func (m *stealMeter) begin() int64 {
	if m.file == nil {
		return -1
	}
	var buf [256]byte
	n, _ := m.file.ReadAt(buf[:], 0)
	line, _, _ := bytes.Cut(buf[:n], []byte("\n"))
	// cpu user nice system idle iowait irq softirq steal ...
	fields := bytes.Fields(line)
	if len(fields) < 9 {
		return -1
	}
	ticks, err := strconv.ParseInt(string(fields[8]), 10, 64)
	if err != nil {
		return -1
	}
	return ticks
}

// end returns the time stolen since begin, over all CPUs.
func (m *stealMeter) end(begin int64) time.Duration {
	now := m.begin()
	if begin < 0 || now < begin {
		return 0
	}
	return time.Duration(now-begin) * 10 * time.Millisecond
}

func (m *stealMeter) close() {
	if m.file != nil {
		m.file.Close()
		m.file = nil
	}
}

// disturbance names what the system did to a block, "" when nothing was seen.
func disturbance(stolen time.Duration, preempted int64) string {
	var words []string
	if stolen > 0 {
		words = append(words, fmt.Sprintf("stolen %d ms", stolen.Milliseconds()))
	}
	switch {
	case preempted == 1:
		words = append(words, "preempted once")
	case preempted > 1:
		words = append(words, fmt.Sprintf("preempted %d times", preempted))
	}
	return strings.Join(words, ", ")
}
