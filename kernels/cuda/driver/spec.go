//go:build cuda

package driver

// #include <cuda.h>
import "C"

import (
	"fmt"
	"strings"
	"unsafe"

	"gorgonia.org/cu"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/management"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/planning"
	"github.com/gemmaudit/gemmaudit/kernels/datasheet"
)

// Pretend, if a test sets it, changes the description of an opened GPU: a newer GPU acts as an older one with
// its limits.
var Pretend func(*planning.Arch)

func (d *Device) readSpec() error {
	name, err := d.handle.Name()
	if err != nil {
		return fmt.Errorf("read its name: %w", driver(err))
	}
	memory, err := d.handle.TotalMem()
	if err != nil {
		return fmt.Errorf("read the memory of %s: %w", name, driver(err))
	}
	get := func(attribute cu.DeviceAttribute) (v int) {
		if err == nil {
			v, err = d.handle.Attribute(attribute)
		}
		return v
	}
	const sharedOptIn = cu.DeviceAttribute(C.CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN)
	d.cooperative = get(cu.DeviceAttribute(C.CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH)) != 0
	d.arch = planning.Arch{
		CC:        10*get(cu.ComputeCapabilityMajor) + get(cu.ComputeCapabilityMinor),
		SMs:       get(cu.MultiprocessorCount),
		SharedMax: get(sharedOptIn),
		L2:        int64(get(cu.L2CacheSize)),
		ClockMHz:  float64(get(cu.ClockRate)) / 1000,
	}
	memoryMHz, busBits := float64(get(cu.MemoryClockRate))/1000, get(cu.GlobalMemoryBusWidth)
	d.arch.Bandwidth = datasheet.MemoryBandwidth(name, d.arch.SMs, memoryMHz, busBits)
	if Pretend != nil {
		Pretend(&d.arch)
	}
	mode := get(cu.ComputeMode)
	if err != nil {
		return fmt.Errorf("read the properties of %s: %w", name, driver(err))
	}
	if mode == C.CU_COMPUTEMODE_PROHIBITED {
		return fmt.Errorf("%s is in compute mode prohibited; `nvidia-smi -c DEFAULT` opens it", name)
	}
	s := &d.spec
	s.UUID = d.uuid()
	s.Name, s.Units, s.MemoryBytes, s.LastLevelCacheBytes = name, d.arch.SMs, memory, d.arch.L2
	s.Caches = []kernels.Cache{{Level: 2, Bytes: d.arch.L2, Count: 1}}
	s.Features = []string{fmt.Sprintf("sm_%d", d.arch.CC)}
	if d.arch.CC == 90 {
		s.Features = []string{"sm_90a"}
	}
	s.Versions = map[string]string{}
	var version C.int // NVML overwrites it if available
	if C.cuDriverGetVersion(&version) == C.CUDA_SUCCESS {
		s.Versions["cuda driver api"] = management.CUDAVersion(int(version))
	}
	d.Card = management.Open().Card(d.busID())
	d.Card.Describe(s)
	return nil
}

// uuid returns the card's UUID, as nvidia-smi prints it. It does not depend on the slot or on
// CUDA_VISIBLE_DEVICES.
func (d *Device) uuid() string {
	var id C.CUuuid
	if C.cuDeviceGetUuid(&id, C.CUdevice(d.handle)) != C.CUDA_SUCCESS {
		return ""
	}
	b := C.GoBytes(unsafe.Pointer(&id), C.sizeof_CUuuid)
	return fmt.Sprintf("GPU-%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}

func (d *Device) busID() string {
	var id [32]C.char
	if err := result(C.cuDeviceGetPCIBusId(&id[0], C.int(len(id)), C.CUdevice(d.handle))); err != nil {
		return ""
	}
	return strings.ToUpper(C.GoString(&id[0]))
}
