//go:build cuda

package management

import (
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"github.com/gemmaudit/gemmaudit/kernels"
)

// Card is one GPU in NVML. It must be used by one goroutine, like its device.
type Card struct {
	m      *Library
	busID  string
	device nvml.Device
	err    error // why no data is available

	// The last telemetry, its time, and how long it stays valid.
	last  kernels.Telemetry
	taken time.Time
	stand time.Duration
	now   func() time.Time // nil is time.Now
}

// Telemetry is read between blocks, when the card is idle. The calls go through the driver and take
// microseconds to milliseconds, by card and driver. A slow reading stays valid longer.
const (
	leastStand = 20 * time.Millisecond
	mostStand  = time.Second
	costShare  = 50 // validity, as a multiple of a reading's cost
)

// Telemetry returns the card's power, temperature and throttle reasons.
func (c *Card) Telemetry() kernels.Telemetry {
	if c.err != nil {
		return kernels.Telemetry{}
	}
	clock := c.now
	if clock == nil {
		clock = time.Now
	}
	began := clock()
	if !c.taken.IsZero() && began.Sub(c.taken) < c.stand {
		return c.last
	}
	var t kernels.Telemetry
	if mw, why := query(c.m, c.device.GetPowerUsage, "nvmlDeviceGetPowerUsage"); why == "" {
		t.PowerW = float64(mw) / 1000
	}
	if deg, why := query(c.m, c.temperature, "nvmlDeviceGetTemperature"); why == "" {
		t.TempC = float64(deg)
	}
	if mask, why := c.reasons(); why == "" {
		reasons, _ := throttleReasons(mask)
		t.Throttle = kernels.Throttled(reasons...)
	}
	ended := clock()
	c.last, c.taken = t, ended
	c.stand = max(leastStand, min(mostStand, costShare*ended.Sub(began)))
	return t
}

// EnergyMJ implements [kernels.EnergyMeter]; cards since Volta have a counter.
func (c *Card) EnergyMJ() (float64, error) {
	if c.err != nil {
		return 0, c.err
	}
	mj, why := query(c.m, c.device.GetTotalEnergyConsumption, "nvmlDeviceGetTotalEnergyConsumption")
	if why != "" {
		return 0, fmt.Errorf("energy of the card at %s: %s", c.busID, why)
	}
	return float64(mj), nil
}

// temperature uses the old function, which every driver exports.
func (c *Card) temperature() (uint32, nvml.Return) {
	return c.device.GetTemperature(nvml.TEMPERATURE_GPU)
}

// reasons returns the mask of throttle reasons. The function's name changed in driver 535.
func (c *Card) reasons() (uint64, string) {
	const name = "nvmlDeviceGetCurrentClocksEventReasons"
	if c.m.has(name) {
		return query(c.m, c.device.GetCurrentClocksEventReasons, name)
	}
	return query(c.m, c.device.GetCurrentClocksThrottleReasons, "nvmlDeviceGetCurrentClocksThrottleReasons")
}

// throttleReasons lists the reasons of a mask. Idle does not affect measurements and is returned separately.
func throttleReasons(mask uint64) (reasons []kernels.ThrottleReason, idle bool) {
	for _, r := range []struct {
		bit    uint64
		reason kernels.ThrottleReason
	}{
		{nvml.ClocksEventReasonSwPowerCap, kernels.PowerCap},
		{nvml.ClocksEventReasonSwThermalSlowdown, kernels.TooHotDriver},
		{nvml.ClocksThrottleReasonHwThermalSlowdown, kernels.TooHotHardware},
		{nvml.ClocksThrottleReasonHwPowerBrakeSlowdown, kernels.PowerBrake},
		{nvml.ClocksThrottleReasonHwSlowdown, kernels.HardwareSlowdown},
		{nvml.ClocksEventReasonApplicationsClocksSetting, kernels.ApplicationClocks},
		{nvml.ClocksEventReasonSyncBoost, kernels.SyncBoost},
		{nvml.ClocksEventReasonDisplayClockSetting, kernels.DisplayClocks},
		{nvml.ClocksEventReasonBoardLimit, kernels.BoardLimit},
		{nvml.ClocksEventReasonReliability, kernels.Reliability},
	} {
		if mask&r.bit != 0 {
			reasons = append(reasons, r.reason)
			mask &^= r.bit
		}
	}
	idle = mask&nvml.ClocksEventReasonGpuIdle != 0
	if mask &^= nvml.ClocksEventReasonGpuIdle; mask != 0 {
		reasons = append(reasons, kernels.ThrottleReason(fmt.Sprintf("reason %#x", mask)))
	}
	return reasons, idle
}

// CardState returns everything that NVML reports about the card. It takes several milliseconds; don't call it
// between blocks.
func (c *Card) CardState() (kernels.CardState, error) {
	if c.err != nil {
		return kernels.CardState{}, c.err
	}
	s := kernels.CardState{BusID: c.busID}
	miss := func(fact, why string) {
		if why != "" {
			s.Unknown = append(s.Unknown, kernels.Missing{Name: fact, Reason: why})
		}
	}
	d := c.device
	// number reads one figure; unit converts NVML's unit to ours.
	number := func(to *float64, fact string, unit float64, ask func() (uint32, nvml.Return), symbol string) {
		v, why := query(c.m, ask, symbol)
		*to = float64(v) * unit
		miss(fact, why)
	}
	clock := func(f func(nvml.ClockType) (uint32, nvml.Return), kind nvml.ClockType) func() (uint32, nvml.Return) {
		return func() (uint32, nvml.Return) { return f(kind) }
	}
	number(&s.ClockMHz, "clock", 1, clock(d.GetClockInfo, nvml.CLOCK_SM), "nvmlDeviceGetClockInfo")
	number(&s.MaxClockMHz, "maximum clock", 1, clock(d.GetMaxClockInfo, nvml.CLOCK_SM), "nvmlDeviceGetMaxClockInfo")
	number(&s.MemoryClockMHz, "memory clock", 1, clock(d.GetClockInfo, nvml.CLOCK_MEM), "nvmlDeviceGetClockInfo")
	number(&s.MaxMemoryClockMHz, "maximum memory clock", 1, clock(d.GetMaxClockInfo, nvml.CLOCK_MEM), "nvmlDeviceGetMaxClockInfo")
	number(&s.ApplicationClockMHz, "application clock", 1, clock(d.GetApplicationsClock, nvml.CLOCK_GRAPHICS),
		"nvmlDeviceGetApplicationsClock")
	number(&s.DefaultClockMHz, "default application clock", 1, clock(d.GetDefaultApplicationsClock, nvml.CLOCK_GRAPHICS),
		"nvmlDeviceGetDefaultApplicationsClock")
	number(&s.PowerW, "power", 1e-3, d.GetPowerUsage, "nvmlDeviceGetPowerUsage")
	number(&s.PowerLimitW, "power limit", 1e-3, d.GetEnforcedPowerLimit, "nvmlDeviceGetEnforcedPowerLimit")
	number(&s.DefaultPowerLimitW, "default power limit", 1e-3, d.GetPowerManagementDefaultLimit, "nvmlDeviceGetPowerManagementDefaultLimit")
	number(&s.TempC, "temperature", 1, c.temperature, "nvmlDeviceGetTemperature")
	number(&s.SlowdownTempC, "slowdown temperature", 1, func() (uint32, nvml.Return) {
		return d.GetTemperatureThreshold(nvml.TEMPERATURE_THRESHOLD_SLOWDOWN)
	}, "nvmlDeviceGetTemperatureThreshold")

	mask, why := c.reasons()
	s.Throttle, s.Idle = throttleReasons(mask)
	miss("throttle reasons", why)
	c.modes(&s, miss)
	c.link(&s, miss)
	c.processes(&s, miss)
	return s, nil
}

func (c *Card) modes(s *kernels.CardState, miss func(fact, why string)) {
	d := c.device
	state := func(to *string, fact string, ask func() (nvml.EnableState, nvml.Return), symbol string) {
		v, why := query(c.m, ask, symbol)
		if miss(fact, why); why == "" {
			*to = onOff(v == nvml.FEATURE_ENABLED)
		}
	}
	state(&s.Persistence, "persistence mode", d.GetPersistenceMode, "nvmlDeviceGetPersistenceMode")
	state(&s.ECC, "ECC mode", func() (nvml.EnableState, nvml.Return) {
		now, _, ret := d.GetEccMode()
		return now, ret
	}, "nvmlDeviceGetEccMode")
	mig, why := query(c.m, func() (int, nvml.Return) {
		now, _, ret := d.GetMigMode()
		return now, ret
	}, "nvmlDeviceGetMigMode")
	if miss("MIG mode", why); why == "" {
		s.MIG = onOff(mig == nvml.DEVICE_MIG_ENABLE)
	}
	mode, why := query(c.m, d.GetComputeMode, "nvmlDeviceGetComputeMode")
	if miss("compute mode", why); why == "" {
		s.ComputeMode = computeMode(mode)
	}
	if s.ECC != "on" {
		return
	}
	for _, counter := range []struct {
		to   *int64
		fact string
		kind nvml.EccCounterType
	}{{&s.Uncorrected, "uncorrected errors", nvml.VOLATILE_ECC},
		{&s.UncorrectedEver, "uncorrected errors of its life", nvml.AGGREGATE_ECC}} {
		v, why := query(c.m, func() (uint64, nvml.Return) {
			return d.GetTotalEccErrors(nvml.MEMORY_ERROR_TYPE_UNCORRECTED, counter.kind)
		}, "nvmlDeviceGetTotalEccErrors")
		*counter.to = int64(v)
		miss(counter.fact, why)
	}
	// Cards from Ampere on remap rows; older ones retire pages.
	pending, remapped := query(c.m, func() (bool, nvml.Return) {
		_, _, pending, _, ret := d.GetRemappedRows()
		return pending, ret
	}, "nvmlDeviceGetRemappedRows")
	s.Retiring = pending
	if remapped == "" {
		return
	}
	retiring, why := query(c.m, d.GetRetiredPagesPendingStatus, "nvmlDeviceGetRetiredPagesPendingStatus")
	s.Retiring = retiring == nvml.FEATURE_ENABLED
	miss("memory to be replaced", why)
}

func (c *Card) link(s *kernels.CardState, miss func(fact, why string)) {
	d := c.device
	for _, f := range []struct {
		to     *int
		fact   string
		ask    func() (int, nvml.Return)
		symbol string
	}{
		{&s.LinkGeneration, "PCIe generation", d.GetCurrPcieLinkGeneration, "nvmlDeviceGetCurrPcieLinkGeneration"},
		{&s.MaxLinkGeneration, "maximum PCIe generation", d.GetMaxPcieLinkGeneration, "nvmlDeviceGetMaxPcieLinkGeneration"},
		{&s.LinkWidth, "PCIe width", d.GetCurrPcieLinkWidth, "nvmlDeviceGetCurrPcieLinkWidth"},
		{&s.MaxLinkWidth, "maximum PCIe width", d.GetMaxPcieLinkWidth, "nvmlDeviceGetMaxPcieLinkWidth"},
	} {
		v, why := query(c.m, f.ask, f.symbol)
		*f.to = v
		miss(f.fact, why)
	}
}

// notAvailable is NVML's "unknown" for a 64-bit figure.
const notAvailable = ^uint64(0)

// processes lists other processes with memory on the card, compute and graphics.
func (c *Card) processes(s *kernels.CardState, miss func(fact, why string)) {
	const computing = "nvmlDeviceGetComputeRunningProcesses"
	const drawing = "nvmlDeviceGetGraphicsRunningProcesses"
	seen := map[uint32]bool{uint32(os.Getpid()): true}
	for _, list := range []struct {
		ask     func() ([]nvml.ProcessInfo, nvml.Return)
		symbols []string
	}{
		{c.device.GetComputeRunningProcesses, []string{computing, computing + "_v2", computing + "_v3"}},
		{c.device.GetGraphicsRunningProcesses, []string{drawing, drawing + "_v2", drawing + "_v3"}},
	} {
		found, why := query(c.m, list.ask, list.symbols...)
		if list.symbols[0] == computing {
			miss("processes on the card", why)
		}
		for _, p := range found {
			if seen[p.Pid] {
				continue
			}
			seen[p.Pid] = true
			q := kernels.CardProcess{PID: int(p.Pid)}
			if p.UsedGpuMemory != notAvailable {
				q.Bytes = int64(p.UsedGpuMemory)
			}
			_, err := os.Stat(fmt.Sprintf("/proc/%d", p.Pid))
			if q.Visible = err == nil; q.Visible {
				if name, why := query(c.m, func() (string, nvml.Return) { return c.m.lib.SystemGetProcessName(q.PID) },
					"nvmlSystemGetProcessName"); why == "" {
					q.Name = name[strings.LastIndex(name, "/")+1:]
				}
			}
			s.Processes = append(s.Processes, q)
		}
	}
}

func onOff(on bool) string {
	if on {
		return "on"
	}
	return "off"
}

func computeMode(m nvml.ComputeMode) string {
	switch m {
	case nvml.COMPUTEMODE_DEFAULT:
		return "default"
	case nvml.COMPUTEMODE_EXCLUSIVE_THREAD:
		return "exclusive thread"
	case nvml.COMPUTEMODE_EXCLUSIVE_PROCESS:
		return "exclusive process"
	case nvml.COMPUTEMODE_PROHIBITED:
		return "prohibited"
	}
	return fmt.Sprintf("mode %d", m)
}
