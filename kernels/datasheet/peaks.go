package datasheet

import (
	"strings"

	"github.com/gemmaudit/gemmaudit/kernels"
)

// The units that rates belong to.
const (
	cudaCore   = "CUDA core"
	tensorCore = "tensor core"
	matrixCore = "matrix core" // of AMD
)

// perClock is what one SM does in one clock, by compute capability × 10: operations,
// an addition and a multiplication counted as two, accumulated in fp32 or int32.
// GeForce cards of these architectures accumulate floats in fp32 at half the rate.
var perClock = map[int]rates{
	70:  {fp32: 128, fp16: 1024},
	75:  {fp32: 128, fp16: 1024, int8: 2048},
	80:  {fp32: 128, tf32: 1024, fp16: 2048, bf16: 2048, int8: 4096},
	86:  {fp32: 256, tf32: 512, fp16: 1024, bf16: 1024, int8: 2048},
	89:  {fp32: 256, tf32: 512, fp16: 1024, bf16: 1024, fp8: 2048, int8: 2048},
	90:  {fp32: 256, tf32: 2048, fp16: 4096, bf16: 4096, fp8: 8192, int8: 8192},
	120: {fp32: 256, tf32: 512, fp16: 1024, bf16: 1024, fp8: 2048, int8: 2048},
}

// Chip is what a driver says of an NVIDIA card.
type Chip struct {
	CC       int     // compute capability × 10
	SMs      int     // streaming multiprocessors
	ClockMHz float64 // the highest SM clock
}

// Of are the dense peaks and the bandwidth of memory, in bytes a second, of a card by its name alone, as files from
// elsewhere have it: "NVIDIA H100 80GB HBM3", "MI300X", "rtx 4090". A name that leaves the variant open, such as "H100", is
// that of the variant with the highest rates. ok is false for a card that is not known.
func Of(name string) (peaks []kernels.Peak, bandwidth float64, ok bool) {
	s, ok := named(name)
	if !ok {
		return nil, 0, false
	}
	for _, d := range kernels.DTypes() {
		if p := s.peak(d); p.FLOPS > 0 {
			peaks = append(peaks, p)
		}
	}
	return peaks, s.gbs * 1e9, true
}

// peak is a sheet's figure for a type; FLOPS is 0 where it has none.
func (s sheet) peak(d kernels.DType) kernels.Peak {
	p := kernels.Peak{DType: d, FLOPS: s.rates.of(d) * 1e12, Origin: kernels.DataSheet, ClockMHz: s.tensor, Unit: tensorCore}
	if strings.HasPrefix(s.names[0], "MI") {
		p.Unit = matrixCore
	} else if d == kernels.FP32 {
		p.ClockMHz, p.Unit = s.cuda, cudaCore
	}
	return p
}

// Peaks are the rates to which a card's MFU is relative: those of its data sheet, or
// where it is not known, what SMs, clock and architecture come to. Only one of the
// two is given, as a figure of the vendor's is not to be replaced by one of ours. A slice of a
// known card, or a variant with other SMs, has its SMs' share of the data sheet's rates, at the data
// sheet's clock: so the MFU of the two are comparable. An architecture that is not known has no peaks.
func Peaks(name string, a Chip) []kernels.Peak {
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
		if d == kernels.FP32 {
			p.Unit = cudaCore
		}
		if known {
			p = s.peak(d)
			p.FLOPS, p.Origin = share*p.FLOPS, origin
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
