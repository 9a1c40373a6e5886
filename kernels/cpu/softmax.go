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

// softmax is one way in which the processor computes softmax.
type softmax struct {
	dev            *Device
	name, describe string
	// most is the columns that it takes, 0 for any number.
	most int
	// of picks the kernel for a problem, and says its name where there is a choice.
	of func(d *Device, p kernels.SoftmaxProblem) (C.ga_kernel, string)
}

var _ kernels.SoftmaxLister = (*Device)(nil)

// SoftmaxKernels implements kernels.SoftmaxLister.
func (d *Device) SoftmaxKernels() []kernels.SoftmaxKernel {
	all := []kernels.SoftmaxKernel{
		softmax{d, "auto", "block where the exponentials of a row fit in the second-level cache, else reread", 0,
			func(d *Device, p kernels.SoftmaxProblem) (C.ga_kernel, string) {
				if p.Columns <= d.softmaxKept() {
					return d.softmaxes(p.DType).block, "block"
				}
				return d.softmaxes(p.DType).reread, "reread"
			}},
		softmax{d, "block", "memory is read once, exponentials stay in cache", C.GA_SOFTMAX_KEPT,
			func(d *Device, p kernels.SoftmaxProblem) (C.ga_kernel, string) { return d.softmaxes(p.DType).block, "" }},
		softmax{d, "reread", "online, rows are read twice and exponentials computed twice", 0,
			func(d *Device, p kernels.SoftmaxProblem) (C.ga_kernel, string) {
				return d.softmaxes(p.DType).reread, ""
			}},
		softmax{d, "naive", "three passes: maximum, sum, quotient", 0,
			func(d *Device, p kernels.SoftmaxProblem) (C.ga_kernel, string) { return d.softmaxes(p.DType).naive, "" }},
	}
	for _, b := range d.softmaxFiles {
		all = append(all, b)
	}
	return all
}

// softmaxes are the kernels of a type for this device's instruction set.
func (d *Device) softmaxes(t kernels.DType) *C.ga_softmax_kernels {
	return C.ga_softmax_for(dtypeCodes[t], d.isa())
}

// assumedL2 is the second-level cache of a core that does not tell.
const assumedL2 = 512 << 10

// softmaxKept is how many columns have their exponentials in half of the second-level cache
// of a core.
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

// Supports implements kernels.SoftmaxKernel.
func (k softmax) Supports(p kernels.SoftmaxProblem) error {
	_, err := p.Normalized()
	if err == nil && k.most > 0 && p.Columns > k.most {
		err = fmt.Errorf("it keeps rows of up to %d columns, the problem has %d", k.most, p.Columns)
	}
	if err != nil {
		return &kernels.Unsupported{Kernel: k.name, DType: p.DType, Reason: err.Error()}
	}
	return nil
}

// Bind implements kernels.SoftmaxKernel. What takes more than the last-level cache, input and output
// together, is stored past it.
func (k softmax) Bind(p kernels.SoftmaxProblem) (kernels.Launch, error) {
	if err := k.Supports(p); err != nil {
		return nil, err
	}
	p, err := p.Normalized()
	if err != nil {
		return nil, err
	}
	o := &operation{dev: k.dev, name: "softmax"}
	bytes := int64(p.Rows) * int64(p.Columns) * int64(p.DType.Size())
	c := C.ga_softmax{
		rows: C.int64_t(p.Rows), columns: C.int64_t(p.Columns), queries: C.int64_t(p.Queries), dtype: o.dtype(p.DType), scale: C.float(p.Scale),
		segments: C.int64_t((p.Columns + C.GA_SOFTMAX_SEGMENT - 1) / C.GA_SOFTMAX_SEGMENT),
	}
	if p.Log {
		c.log = 1
	}
	if 2*bytes > k.dev.spec.LastLevelCacheBytes {
		c.stream = 1
	}
	c.in = o.operand("In", p.In, p.Rows, p.Columns, p.DType)
	c.out = o.operand("Out", p.Out, p.Rows, p.Columns, p.DType)
	kernel, label := k.of(k.dev, p)
	parts := max(2, k.dev.Threads()) * int(c.segments) * int(unsafe.Sizeof(C.ga_softmax_part{}))
	l, err := bind(o, kernel, c, parts)
	if err != nil {
		return nil, err
	}
	l.(*launch).label = label
	return l, nil
}
