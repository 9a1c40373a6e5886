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

// disturbance is what the system did to a block, without what is too little to matter.
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

// tellsLost says whether the time that threads lose is known here.
func (d *Device) tellsLost() bool { return C.ga_pool_tells_lost(d.pool.c) != 0 }

// seconds is a time of the C side.
func seconds[T ~float64](s T) time.Duration { return time.Duration(float64(s) * 1e9) }
