package cpu

// #include "native/pool.h"
import "C"

import (
	"bytes"
	"os"
	"strconv"
	"time"

	"github.com/gemmaudit/gemmaudit/kernels"
)

// stealMeter reads steal time, the time that the hypervisor gave to other guests, from the first line of
// /proc/stat. The kernel counts ticks of 10 ms.
type stealMeter struct{ file *os.File }

// slowestStat is the maximum read time of /proc/stat. With hundreds of CPUs the file is long, and reading it
// would cost too much of a sweep.
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

// begin returns the steal ticks so far, -1 if unknown.
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

// end returns the steal time since begin, summed over all CPUs.
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

type offCPU struct {
	preempted int64 // number of preemptions
	told      bool  // whether lost is known
	lost      time.Duration
	suspended time.Duration // system sleep
	block     time.Duration
}

// leastLost is the smallest share of lost time that matters; verdicts do not resolve smaller differences.
const leastLost = 0.0025

func (off offCPU) disturbance(stolen time.Duration) kernels.Disturbance {
	d := kernels.Disturbance{Stolen: stolen, Suspended: off.suspended}
	if off.told && off.lost.Seconds() < leastLost*off.block.Seconds() {
		return d
	}
	d.Preempted = int(off.preempted)
	if off.told {
		d.Lost, d.Block = off.lost, off.block
	}
	return d
}

func (d *Device) tellsLost() bool { return C.ga_pool_tells_lost(d.pool.c) != 0 }

func seconds[T ~float64](s T) time.Duration { return time.Duration(float64(s) * 1e9) }
