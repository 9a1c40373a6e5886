//go:build cuda

package management

import (
	"errors"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
	"github.com/NVIDIA/go-nvml/pkg/nvml/mock"
	"github.com/google/go-cmp/cmp"

	"github.com/gemmaudit/gemmaudit/kernels"
)

func fakeNVML(device *mock.Device, lacks ...string) *mock.Interface {
	return &mock.Interface{
		InitFunc: func() nvml.Return { return nvml.SUCCESS },
		ExtensionsFunc: func() nvml.ExtendedInterface {
			return &mock.ExtendedInterface{LookupSymbolFunc: func(name string) error {
				if slices.Contains(lacks, name) {
					return errors.New("undefined symbol: " + name)
				}
				return nil
			}}
		},
		SystemGetDriverVersionFunc:        func() (string, nvml.Return) { return "550.54.15", nvml.SUCCESS },
		SystemGetNVMLVersionFunc:          func() (string, nvml.Return) { return "12.550.54.15", nvml.SUCCESS },
		SystemGetCudaDriverVersion_v2Func: func() (int, nvml.Return) { return 12040, nvml.SUCCESS },
		SystemGetProcessNameFunc:          func(int) (string, nvml.Return) { return "/opt/bin/trainer", nvml.SUCCESS },
		DeviceGetHandleByPciBusIdFunc: func(id string) (nvml.Device, nvml.Return) {
			if id != busH200 {
				return nil, nvml.ERROR_NOT_FOUND
			}
			return device, nvml.SUCCESS
		},
	}
}

const busH200 = "0000:1B:00.0"

func fakeH200() *mock.Device {
	fixed := func(v uint32) func() (uint32, nvml.Return) {
		return func() (uint32, nvml.Return) { return v, nvml.SUCCESS }
	}
	number := func(v int) func() (int, nvml.Return) {
		return func() (int, nvml.Return) { return v, nvml.SUCCESS }
	}
	clocks := func(sm, mem uint32) func(nvml.ClockType) (uint32, nvml.Return) {
		return func(kind nvml.ClockType) (uint32, nvml.Return) {
			if kind == nvml.CLOCK_MEM {
				return mem, nvml.SUCCESS
			}
			return sm, nvml.SUCCESS
		}
	}
	return &mock.Device{
		GetClockInfoFunc: clocks(1545, 3201), GetMaxClockInfoFunc: clocks(1980, 3201),
		GetApplicationsClockFunc: clocks(1980, 3201), GetDefaultApplicationsClockFunc: clocks(1980, 3201),
		GetPowerUsageFunc: fixed(699500), GetEnforcedPowerLimitFunc: fixed(700000), GetPowerManagementDefaultLimitFunc: fixed(700000),
		GetTotalEnergyConsumptionFunc: func() (uint64, nvml.Return) { return 123_456_789, nvml.SUCCESS },
		GetTemperatureFunc:            func(nvml.TemperatureSensors) (uint32, nvml.Return) { return 61, nvml.SUCCESS },
		GetTemperatureThresholdFunc:   func(nvml.TemperatureThresholds) (uint32, nvml.Return) { return 87, nvml.SUCCESS },
		GetCurrentClocksEventReasonsFunc: func() (uint64, nvml.Return) {
			return nvml.ClocksEventReasonSwPowerCap, nvml.SUCCESS
		},
		GetCurrentClocksThrottleReasonsFunc: func() (uint64, nvml.Return) {
			return nvml.ClocksThrottleReasonHwThermalSlowdown | nvml.ClocksThrottleReasonGpuIdle, nvml.SUCCESS
		},
		GetPersistenceModeFunc: func() (nvml.EnableState, nvml.Return) { return nvml.FEATURE_ENABLED, nvml.SUCCESS },
		GetEccModeFunc: func() (nvml.EnableState, nvml.EnableState, nvml.Return) {
			return nvml.FEATURE_ENABLED, nvml.FEATURE_ENABLED, nvml.SUCCESS
		},
		GetTotalEccErrorsFunc: func(_ nvml.MemoryErrorType, counter nvml.EccCounterType) (uint64, nvml.Return) {
			if counter == nvml.AGGREGATE_ECC {
				return 2, nvml.SUCCESS
			}
			return 0, nvml.SUCCESS
		},
		GetRemappedRowsFunc:              func() (int, int, bool, bool, nvml.Return) { return 0, 1, true, false, nvml.SUCCESS },
		GetRetiredPagesPendingStatusFunc: func() (nvml.EnableState, nvml.Return) { return nvml.FEATURE_ENABLED, nvml.SUCCESS },
		GetMigModeFunc:                   func() (int, int, nvml.Return) { return 0, 0, nvml.SUCCESS },
		GetComputeModeFunc:               func() (nvml.ComputeMode, nvml.Return) { return nvml.COMPUTEMODE_DEFAULT, nvml.SUCCESS },
		GetVbiosVersionFunc:              func() (string, nvml.Return) { return "96.00.BC.00.01", nvml.SUCCESS },

		GetCurrPcieLinkGenerationFunc: number(5), GetMaxPcieLinkGenerationFunc: number(5),
		GetCurrPcieLinkWidthFunc: number(16), GetMaxPcieLinkWidthFunc: number(16),

		GetComputeRunningProcessesFunc: func() ([]nvml.ProcessInfo, nvml.Return) {
			return []nvml.ProcessInfo{
				{Pid: uint32(os.Getpid()), UsedGpuMemory: 1 << 30},
				{Pid: uint32(os.Getppid()), UsedGpuMemory: 3 << 30},
				{Pid: 1 << 30, UsedGpuMemory: notAvailable},
			}, nvml.SUCCESS
		},
		GetGraphicsRunningProcessesFunc: func() ([]nvml.ProcessInfo, nvml.Return) { return nil, nvml.ERROR_NOT_SUPPORTED },
	}
}

func TestCardState(t *testing.T) {
	c := newManagement(fakeNVML(fakeH200())).Card(busH200)
	got, err := c.CardState()
	if err != nil {
		t.Fatal(err)
	}
	want := kernels.CardState{
		BusID: busH200, ClockMHz: 1545, MaxClockMHz: 1980, MemoryClockMHz: 3201, MaxMemoryClockMHz: 3201,
		ApplicationClockMHz: 1980, DefaultClockMHz: 1980, PowerW: 699.5, PowerLimitW: 700, DefaultPowerLimitW: 700,
		TempC: 61, SlowdownTempC: 87, Throttle: []kernels.ThrottleReason{kernels.PowerCap},
		ECC: "on", MIG: "off", Persistence: "on", ComputeMode: "default", UncorrectedEver: 2, Retiring: true,
		LinkGeneration: 5, MaxLinkGeneration: 5, LinkWidth: 16, MaxLinkWidth: 16,
		Processes: []kernels.CardProcess{
			{PID: os.Getppid(), Name: "trainer", Bytes: 3 << 30, Visible: true},
			{PID: 1 << 30},
		},
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	var spec kernels.Spec
	c.Describe(&spec)
	if d := cmp.Diff(map[string]string{"driver": "550.54.15", "nvml": "12.550.54.15", "cuda driver api": "12.4", "vbios": "96.00.BC.00.01"},
		spec.Versions); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff(map[string]string{"power limit": "700 W", "ecc": "on", "mig": "off", "compute mode": "default",
		"max sm clock": "1980 MHz", "max memory clock": "3201 MHz", "application clock": "1980 MHz"}, spec.Settings); d != "" {
		t.Error(d)
	}
}

func TestEnergy(t *testing.T) {
	c := newManagement(fakeNVML(fakeH200())).Card(busH200)
	if mj, err := c.EnergyMJ(); err != nil || mj != 123456789 {
		t.Errorf("%g mJ, %v", mj, err)
	}
	old := fakeH200()
	old.GetTotalEnergyConsumptionFunc = func() (uint64, nvml.Return) { return 0, nvml.ERROR_NOT_SUPPORTED }
	for want, lib := range map[string]*mock.Interface{
		"this card does not tell":                    fakeNVML(old),
		"has no nvmlDeviceGetTotalEnergyConsumption": fakeNVML(fakeH200(), "nvmlDeviceGetTotalEnergyConsumption"),
	} {
		if mj, err := newManagement(lib).Card(busH200).EnergyMJ(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%g mJ, %v; want %q", mj, err, want)
		}
	}
	if _, err := newManagement(fakeNVML(fakeH200())).Card("0000:FF:00.0").EnergyMJ(); err == nil {
		t.Error("a card that NVML does not know tells its energy")
	}
}

func TestMissingSymbols(t *testing.T) {
	m := newManagement(fakeNVML(fakeH200()))
	c := m.Card(busH200)
	c.Describe(&kernels.Spec{})
	if _, err := c.CardState(); err != nil {
		t.Fatal(err)
	}
	c.Telemetry()
	for _, symbol := range slices.Sorted(maps.Keys(m.symbols)) {
		t.Run(symbol, func(t *testing.T) {
			// Older NVMLs lack every name of a function.
			lacks := []string{symbol, symbol + "_v2", symbol + "_v3"}
			m := newManagement(fakeNVML(fakeH200(), lacks...))
			c := m.Card(busH200)
			s, err := c.CardState()
			c.Telemetry()
			c.Describe(&kernels.Spec{})
			switch symbol {
			case "nvmlDeviceGetHandleByPciBusId":
				if err == nil || !strings.Contains(err.Error(), symbol) {
					t.Errorf("the error is %v", err)
				}
			case "nvmlDeviceGetCurrentClocksEventReasons":
				if s.Throttle[0] != kernels.TooHotHardware || !s.Idle {
					t.Errorf("the older function says %v, idle %v", s.Throttle, s.Idle)
				}
			}
		})
	}
	// A card whose functions panic, and a library that only finds cards.
	lib := fakeNVML(&mock.Device{})
	lib.ExtensionsFunc = func() nvml.ExtendedInterface {
		return &mock.ExtendedInterface{LookupSymbolFunc: func(name string) error {
			if strings.HasPrefix(name, "nvmlDeviceGetHandle") {
				return nil
			}
			return errors.New("undefined symbol: " + name)
		}}
	}
	c = newManagement(lib).Card(busH200)
	s, err := c.CardState()
	if err != nil || len(s.Unknown) < 15 {
		t.Errorf("a card of which nothing can be asked: %v, %d unknown facts", err, len(s.Unknown))
	}
	if tele := c.Telemetry(); tele != (kernels.Telemetry{}) {
		t.Errorf("its telemetry is %+v", tele)
	}
}

func TestNoNVML(t *testing.T) {
	for ret, want := range map[nvml.Return]string{
		nvml.ERROR_LIBRARY_NOT_FOUND:       "libnvidia-ml.so.1 can't be opened",
		nvml.ERROR_DRIVER_NOT_LOADED:       "no driver loaded",
		nvml.ERROR_LIB_RM_VERSION_MISMATCH: "different versions",
		nvml.ERROR_UNKNOWN:                 "does not start",
	} {
		m := newManagement(&mock.Interface{InitFunc: func() nvml.Return { return ret }})
		c := m.Card(busH200)
		if _, err := c.CardState(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: the error is %v, want one with %q", ret, err, want)
		}
		var spec kernels.Spec
		c.Describe(&spec)
		if c.Telemetry() != (kernels.Telemetry{}) || len(spec.Versions)+len(spec.Settings) != 0 {
			t.Errorf("%v: a card without NVML tells something", ret)
		}
	}
	c := newManagement(fakeNVML(fakeH200())).Card("0000:99:00.0")
	if _, err := c.CardState(); err == nil || !strings.Contains(err.Error(), "0000:99:00.0") {
		t.Errorf("a card that is not there: %v", err)
	}
}

func TestRealNVML(t *testing.T) {
	m := Open()
	if m.err != nil {
		t.Logf("no NVML here: %v", m.err)
	}
	c := m.Card(busH200)
	c.Telemetry()
	_, err := c.CardState()
	t.Logf("versions %v, card: %v", m.versions(), err)
}

// A reading is valid for 20 ms, or longer if it is slow.
func TestTelemetryIsSampled(t *testing.T) {
	now := time.Unix(1000, 0)
	cost := 10 * time.Microsecond
	d := fakeH200()
	reads := 0
	d.GetPowerUsageFunc = func() (uint32, nvml.Return) {
		reads++
		now = now.Add(cost)
		return uint32(reads * 1000), nvml.SUCCESS
	}
	c := newManagement(fakeNVML(d)).Card(busH200)
	c.now = func() time.Time { return now }
	first := c.Telemetry()
	if first != (kernels.Telemetry{PowerW: 1, TempC: 61, Throttle: "power cap"}) {
		t.Errorf("telemetry is %+v", first)
	}
	now = now.Add(leastStand - time.Microsecond)
	if c.Telemetry(); reads != 1 {
		t.Errorf("%d readings within %v", reads, leastStand)
	}
	now = now.Add(2 * time.Microsecond)
	cost = 2 * time.Millisecond
	if c.Telemetry(); reads != 2 {
		t.Errorf("%d readings after %v", reads, leastStand)
	}
	now = now.Add(90 * time.Millisecond)
	if c.Telemetry(); reads != 2 {
		t.Error("a reading that costs 2 ms stands for less than 90 ms")
	}
	now = now.Add(20 * time.Millisecond)
	if got := c.Telemetry(); got.PowerW != 3 {
		t.Errorf("after 110 ms the power is that of reading %v", got.PowerW)
	}
}

func TestThrottleReasons(t *testing.T) {
	words, idle := throttleReasons(nvml.ClocksEventReasonGpuIdle | 1<<40)
	if !idle || len(words) != 1 || words[0] != "reason 0x10000000000" {
		t.Errorf("%v, idle %v", words, idle)
	}
	if words, idle := throttleReasons(0); words != nil || idle {
		t.Errorf("%v, idle %v", words, idle)
	}
	all, _ := throttleReasons(nvml.ClocksEventReasonAll)
	if len(all) != 10 || strings.Contains(string(kernels.Throttled(all...)), "0x") {
		t.Errorf("all reasons: %v", all)
	}
}
