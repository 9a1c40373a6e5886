//go:build cuda

package driver

// #include <cuda.h>
import "C"

import (
	"errors"
	"fmt"

	"gorgonia.org/cu"

	"github.com/gemmaudit/gemmaudit/kernels/cuda/artefacts"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/planning"
)

// code is a GPU's loaded device code: modules by source, loaded at the first use of one of their kernels.
type code struct {
	modules   map[string]cu.Module
	functions map[string]*function
}

type function struct {
	c       C.CUfunction
	dynamic int  // maximum dynamic shared memory in bytes
	wide    bool // clusters of more than 8 blocks are enabled
}

// Defaults without opt-in: dynamic shared memory, and cluster size, which every GPU with clusters can
// schedule.
const (
	plainShared  = 48 << 10
	plainCluster = 8
)

// loadCode needs the device's context to be current.
func loadCode(d *Device) *code {
	c := &code{modules: map[string]cu.Module{}, functions: map[string]*function{}}
	d.OnClose(func() error {
		var errs []error
		for source, m := range c.modules {
			if err := m.Unload(); err != nil {
				errs = append(errs, fmt.Errorf("unload %s: %w", source, driver(err)))
			}
		}
		return errors.Join(errs...)
	})
	return c
}

// function finds a kernel and enables a call's requirements. The context must be current.
func (c *code) function(d *Device, ask planning.Call) (C.CUfunction, error) {
	f := c.functions[ask.Kernel]
	if f == nil {
		k, err := artefacts.Find(ask.Kernel, d.arch.CC)
		if err != nil {
			return nil, err
		}
		// The struct is padded to its alignment, 8 bytes or a tensor map's 64.
		if pad := k.Parameter - len(ask.Args.Bytes); pad < 0 || pad >= 8 && (len(ask.Args.Maps) == 0 || pad >= 64) {
			return nil, fmt.Errorf("kernel %s takes a parameter of %d bytes, the plan made one of %d", ask.Kernel, k.Parameter,
				len(ask.Args.Bytes))
		}
		m, err := c.module(d, k.Source)
		if err != nil {
			return nil, err
		}
		loaded, err := m.Function(ask.Kernel)
		if err != nil {
			return nil, d.failed(driver(err), "load kernel %s", ask.Kernel)
		}
		f = &function{c: C.CUfunction(handle(&loaded)), dynamic: plainShared - k.Shared}
		c.functions[ask.Kernel] = f
	}
	if ask.Shared > f.dynamic {
		if err := result(C.cuFuncSetAttribute(f.c, C.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, C.int(ask.Shared))); err != nil {
			return nil, d.failed(err, "let kernel %s have %d bytes of shared memory", ask.Kernel, ask.Shared)
		}
		f.dynamic = ask.Shared
	}
	if size := ask.Cluster.Blocks(); size > plainCluster && !f.wide {
		if err := result(C.cuFuncSetAttribute(f.c, C.CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED, 1)); err != nil {
			return nil, d.failed(err, "let kernel %s have clusters of %d blocks", ask.Kernel, size)
		}
		f.wide = true
	}
	return f.c, nil
}

func (c *code) module(d *Device, source string) (cu.Module, error) {
	if m, ok := c.modules[source]; ok {
		return m, nil
	}
	image, arch, err := artefacts.Image(source, d.arch.CC)
	if err != nil {
		return cu.Module{}, err
	}
	m, err := cu.LoadData(string(image))
	if err != nil {
		return cu.Module{}, d.failed(driver(err), "load %s for %s (%d bytes)", source, arch, len(image))
	}
	c.modules[source] = m
	return m, nil
}
