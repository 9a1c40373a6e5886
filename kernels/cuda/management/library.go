//go:build cuda

package management

import (
	"fmt"
	"strconv"
	"sync"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"github.com/gemmaudit/gemmaudit/kernels"
)

// Library is NVML. If it is absent or does not answer, the Library is still valid and returns the reason.
type Library struct {
	lib nvml.Interface
	err error // why queries are not possible

	mu      sync.Mutex
	symbols map[string]bool
}

// Open opens the system's NVML, once for the process.
var Open = sync.OnceValue(func() *Library { return newManagement(nvml.New()) })

func newManagement(lib nvml.Interface) *Library {
	m := &Library{lib: lib, symbols: map[string]bool{}}
	switch ret := lib.Init(); ret {
	case nvml.SUCCESS, nvml.ERROR_ALREADY_INITIALIZED:
	case nvml.ERROR_LIBRARY_NOT_FOUND:
		m.err = fmt.Errorf("libnvidia-ml.so.1 can't be opened: it comes with the driver; a container gets it with the capability " +
			"\"utility\"")
	case nvml.ERROR_DRIVER_NOT_LOADED:
		m.err = fmt.Errorf("NVML finds no driver loaded")
	case nvml.ERROR_LIB_RM_VERSION_MISMATCH:
		m.err = fmt.Errorf("NVML and the loaded driver have different versions: reboot after the driver update")
	default:
		m.err = fmt.Errorf("NVML does not start: %w", ret)
	}
	return m
}

// has reports whether the library exports one of the symbols. Never call a missing function: the dynamic
// linker would end the process.
func (m *Library) has(symbols ...string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, s := range symbols {
		there, known := m.symbols[s]
		if !known {
			there = m.lib.Extensions().LookupSymbol(s) == nil
			m.symbols[s] = there
		}
		if there {
			return true
		}
	}
	return false
}

// query reads one fact. value is valid only if why is empty.
func query[T any](m *Library, ask func() (T, nvml.Return), symbols ...string) (value T, why string) {
	if !m.has(symbols...) {
		return value, "this driver's NVML has no " + symbols[0]
	}
	v, ret := ask()
	if ret != nvml.SUCCESS {
		return value, returned(ret)
	}
	return v, ""
}

func returned(ret nvml.Return) string {
	switch ret {
	case nvml.ERROR_NOT_SUPPORTED:
		return "this card does not tell"
	case nvml.ERROR_NO_PERMISSION:
		return "this user may not know"
	case nvml.ERROR_GPU_IS_LOST:
		return "the card has fallen off the bus"
	}
	return ret.Error()
}

// versions has the driver, its newest CUDA API, and NVML; empty if unknown.
func (m *Library) versions() map[string]string {
	out := map[string]string{}
	if m.err != nil {
		return out
	}
	if v, why := query(m, m.lib.SystemGetDriverVersion, "nvmlSystemGetDriverVersion"); why == "" {
		out["driver"] = v
	}
	if v, why := query(m, m.lib.SystemGetNVMLVersion, "nvmlSystemGetNVMLVersion"); why == "" {
		out["nvml"] = v
	}
	if v, why := query(m, m.lib.SystemGetCudaDriverVersion_v2, "nvmlSystemGetCudaDriverVersion_v2"); why == "" {
		out["cuda driver api"] = CUDAVersion(v)
	}
	return out
}

// CUDAVersion prints 12040 as "12.4".
func CUDAVersion(v int) string { return strconv.Itoa(v/1000) + "." + strconv.Itoa(v%1000/10) }

// Card returns the card at a PCI bus id in the driver API's format ("0000:1B:00.0"). It is never nil; a card
// unknown to NVML reports no data.
func (m *Library) Card(busID string) *Card {
	c := &Card{m: m, busID: busID, err: m.err}
	if c.err != nil {
		return c
	}
	device, why := query(m, func() (nvml.Device, nvml.Return) { return m.lib.DeviceGetHandleByPciBusId(busID) },
		"nvmlDeviceGetHandleByPciBusId", "nvmlDeviceGetHandleByPciBusId_v2")
	if why != "" {
		c.err = fmt.Errorf("NVML does not know the card at %s: %s", busID, why)
	}
	c.device = device
	return c
}

// Describe adds the card's constant facts from NVML to spec: versions and settings.
func (c *Card) Describe(spec *kernels.Spec) {
	if spec.Versions == nil {
		spec.Versions = map[string]string{}
	}
	for name, v := range c.m.versions() {
		spec.Versions[name] = v
	}
	if c.err != nil {
		return
	}
	if v, why := query(c.m, c.device.GetVbiosVersion, "nvmlDeviceGetVbiosVersion"); why == "" {
		spec.Versions["vbios"] = v
	}
	s, err := c.CardState()
	if err != nil {
		return
	}
	if spec.Settings == nil {
		spec.Settings = map[string]string{}
	}
	for name, v := range map[string]string{
		kernels.PowerLimit: quantity(s.PowerLimitW, "W"), "ecc": s.ECC, "mig": s.MIG, "compute mode": s.ComputeMode,
		"max sm clock": quantity(s.MaxClockMHz, "MHz"), "max memory clock": quantity(s.MaxMemoryClockMHz, "MHz"),
		"application clock": quantity(s.ApplicationClockMHz, "MHz"),
	} {
		if v != "" {
			spec.Settings[name] = v
		}
	}
}

func quantity(v float64, unit string) string {
	if v == 0 {
		return ""
	}
	return strconv.FormatFloat(v, 'f', -1, 64) + " " + unit
}
