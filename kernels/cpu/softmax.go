package cpu

/*
#include "native/softmax.h"
*/
import "C"

import (
	"fmt"
	"unsafe"

	"github.com/gemmaudit/gemmaudit/kernels"
)

type softmax struct {
	kernels.StoresNothing
	kernels.TellsNothing
	dev            *Device
	name, describe string
	// most is the maximum number of columns, 0 for no limit.
	most int
	// of picks the C kernel for a problem, and its name if there are several.
	of func(d *Device, p kernels.Task) (C.ga_kernel, string)
}

func (d *Device) softmaxKernels() []kernels.Kernel {
	all := []kernels.Kernel{
		softmax{dev: d, name: "auto", describe: "block where the exponentials of a row fit in the second-level cache, else reread",
			of: func(d *Device, p kernels.Task) (C.ga_kernel, string) {
				if p.Columns <= d.softmaxKept() {
					return d.softmaxes(p.DType).block, "block"
				}
				return d.softmaxes(p.DType).reread, "reread"
			}},
		softmax{dev: d, name: "block", describe: "memory is read once, exponentials stay in cache", most: C.GA_SOFTMAX_KEPT,
			of: func(d *Device, p kernels.Task) (C.ga_kernel, string) { return d.softmaxes(p.DType).block, "" }},
		softmax{dev: d, name: "reread", describe: "online, rows are read twice and exponentials computed twice",
			of: func(d *Device, p kernels.Task) (C.ga_kernel, string) {
				return d.softmaxes(p.DType).reread, ""
			}},
		softmax{dev: d, name: "naive", describe: "three passes: maximum, sum, quotient",
			of: func(d *Device, p kernels.Task) (C.ga_kernel, string) { return d.softmaxes(p.DType).naive, "" }},
	}
	for _, b := range d.softmaxFiles {
		all = append(all, b)
	}
	return all
}

func (d *Device) softmaxes(t kernels.DType) *C.ga_softmax_kernels {
	return C.ga_softmax_for(dtypeCodes[t], d.isa())
}

// assumedL2 is used if the size of the second-level cache is unknown.
const assumedL2 = 512 << 10

// softmaxKept is the number of columns whose exponentials fit in half of a core's second-level cache.
func (d *Device) softmaxKept() int {
	bytes := int64(assumedL2)
	for _, c := range d.spec.Caches {
		if c.Level == 2 && c.Bytes > 0 {
			bytes = c.Bytes
		}
	}
	return min(int(bytes/2/4), C.GA_SOFTMAX_KEPT)
}

func (k softmax) Name() string     { return k.name }
func (k softmax) Describe() string { return k.describe }

// Supports implements [kernels.Kernel].
func (k softmax) Supports(t kernels.Task) error {
	_, err := t.Softmax(k.name, k.dev.Threads())
	if err == nil && k.most > 0 && t.Columns > k.most {
		err = t.Unsupported(k.name, fmt.Sprintf("it keeps rows of up to %d columns, the problem has %d", k.most, t.Columns))
	}
	return err
}

// Bind implements [kernels.Kernel]. If input and output together exceed the last-level cache, it uses
// non-temporal stores.
func (k softmax) Bind(t kernels.Task, in kernels.Operand, _ kernels.Weights, out kernels.Operand,
	_ ...kernels.Operand) (kernels.Launch, error) {
	if err := k.Supports(t); err != nil {
		return nil, err
	}
	p, err := t.Normalized()
	if err != nil {
		return nil, err
	}
	o := &operation{dev: k.dev, name: "softmax"}
	bytes := int64(p.M) * int64(p.Columns) * int64(p.DType.Size())
	c := C.ga_softmax{
		rows: C.int64_t(p.M), columns: C.int64_t(p.Columns), queries: C.int64_t(p.Queries), dtype: o.dtype(p.DType),
		scale:    C.float(p.Scale),
		segments: C.int64_t((p.Columns + C.GA_SOFTMAX_SEGMENT - 1) / C.GA_SOFTMAX_SEGMENT),
	}
	if p.Log() {
		c.log = 1
	}
	if 2*bytes > k.dev.spec.LastLevelCacheBytes {
		c.stream = 1
	}
	c.in = o.operand("In", in, p.M, p.Columns, p.DType)
	c.out = o.operand("Out", out, p.M, p.Columns, p.DType)
	kernel, label := k.of(k.dev, p)
	parts := max(2, k.dev.Threads()) * int(c.segments) * int(unsafe.Sizeof(C.ga_softmax_part{}))
	l, err := bind(o, kernel, c, parts)
	if err != nil {
		return nil, err
	}
	l.(*launch).label = label
	return l, nil
}
