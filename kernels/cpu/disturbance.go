package cpu

// #include "native/pool.h"
import "C"

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

// offCPU is what the system tells of the time in which a block did not run.
type offCPU struct {
	preempted int64 // how often threads were taken off their CPUs
	told      bool  // whether lost is known
	lost      time.Duration
	suspended time.Duration // for which the machine slept
	block     time.Duration
}

// leastLost is the share of a block that has to be lost to matter: what verdicts are told apart
// by is no finer.
const leastLost = 0.0025

// disturbance names what the system did to a block, "" when nothing was seen that matters.
func disturbance(stolen time.Duration, off offCPU) string {
	var words []string
	if stolen > 0 {
		words = append(words, fmt.Sprintf("stolen %d ms", stolen.Milliseconds()))
	}
	if off.suspended > 0 {
		words = append(words, fmt.Sprintf("suspended for %.3g s", off.suspended.Seconds()))
	}
	if off.told && off.lost.Seconds() < leastLost*off.block.Seconds() {
		return strings.Join(words, ", ")
	}
	word := ""
	switch {
	case off.preempted == 1:
		word = "preempted once"
	case off.preempted > 1:
		word = fmt.Sprintf("preempted %d times", off.preempted)
	case off.told && off.lost > 0:
		word = "stopped"
	}
	if word != "" && off.told {
		word += fmt.Sprintf(": lost %s of %s ms", millis(off.lost), millis(off.block))
	}
	if word != "" {
		words = append(words, word)
	}
	return strings.Join(words, ", ")
}

// millis prints a time in milliseconds with about two digits.
func millis(t time.Duration) string {
	ms := 1e3 * t.Seconds()
	switch {
	case ms >= 9.95:
		return strconv.FormatFloat(ms, 'f', 0, 64)
	case ms >= 0.995:
		return strconv.FormatFloat(ms, 'f', 1, 64)
	}
	return strconv.FormatFloat(ms, 'f', 2, 64)
}

// tellsLost says whether the time that threads lose is known here.
func (d *Device) tellsLost() bool { return C.ga_pool_tells_lost(d.pool.c) != 0 }

// seconds is a time of the C side.
func seconds[T ~float64](s T) time.Duration { return time.Duration(float64(s) * 1e9) }
