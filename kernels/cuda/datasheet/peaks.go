package datasheet

import (
	"strings"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/planning"
)

// The units that rates belong to.
const (
	cudaCore   = "CUDA core"
	tensorCore = "tensor core"
)

// perClock is what one SM does in one clock, by compute capability × 10: operations,
// an addition and a multiplication counted as two, accumulated in fp32 or int32.
// GeForce cards of these architectures accumulate floats in fp32 at half the rate.
var perClock = map[int]rates{
	75:  {fp32: 128, fp16: 1024, int8: 2048},
	80:  {fp32: 128, tf32: 1024, fp16: 2048, bf16: 2048, int8: 4096},
	86:  {fp32: 256, tf32: 512, fp16: 1024, bf16: 1024, int8: 2048},
	89:  {fp32: 256, tf32: 512, fp16: 1024, bf16: 1024, fp8: 2048, int8: 2048},
	90:  {fp32: 256, tf32: 2048, fp16: 4096, bf16: 4096, fp8: 8192, int8: 8192},
	120: {fp32: 256, tf32: 512, fp16: 1024, bf16: 1024, fp8: 2048, int8: 2048},
}

// Peaks are the rates to which a card's MFU is relative: those of its data sheet, or
// where it is not known, what SMs, clock and architecture come to. Only one of the
// two is given, as a figure of the vendor's is not to be replaced by one of ours. A slice of a
// known card, or a variant with other SMs, has its SMs' share of the data sheet's rates, at the data
// sheet's clock: so the MFU of the two are comparable. An architecture that is not known has no peaks.
func Peaks(name string, a planning.Arch) []kernels.Peak {
	s, known := findSheet(name, a.SMs)
	origin, share := kernels.DataSheet, 1.0
	if !known {
		if s, known = findAlike(name); known {
			origin, share = kernels.Computed, float64(a.SMs)/float64(s.sms)
		}
	}
	ops := perClock[a.CC]
	if strings.Contains(name, "GeForce") {
		ops.tf32, ops.fp16, ops.bf16, ops.fp8 = ops.tf32/2, ops.fp16/2, ops.bf16/2, ops.fp8/2
	}
	var out []kernels.Peak
	for _, d := range kernels.DTypes() {
		p := kernels.Peak{DType: d, Origin: kernels.Computed, ClockMHz: a.ClockMHz, Unit: tensorCore,
			FLOPS: float64(a.SMs) * a.ClockMHz * 1e6 * ops.of(d)}
		if known {
			p.FLOPS, p.Origin, p.ClockMHz = share*s.rates.of(d)*1e12, origin, s.tensor
		}
		if d == kernels.FP32 {
			p.Unit = cudaCore
			if known {
				p.ClockMHz = s.cuda
			}
		}
		if p.FLOPS > 0 {
			out = append(out, p)
		}
	}
	return out
}

// MemoryBandwidth is a card's in bytes a second: its data sheet's, or two transfers
// a clock over the width of the bus, with the clock in MHz that the driver gives.
func MemoryBandwidth(name string, sms int, clockMHz float64, busBits int) float64 {
	if s, known := findSheet(name, sms); known {
		return s.gbs * 1e9
	}
	return 2 * clockMHz * 1e6 * float64(busBits) / 8
}
