package datasheet

import (
	"strings"

	"github.com/gemmaudit/gemmaudit/kernels"
)

// Units that execute the operations.
const (
	cudaCore   = "CUDA core"
	tensorCore = "tensor core"
	matrixCore = "matrix core" // of AMD
)

// perClock is operations per SM and clock, by compute capability × 10. A multiply-add counts as two; sums are
// fp32 or int32. GeForce cards of these architectures have half the rate for floats with fp32 sums.
var perClock = map[int]rates{
	70:  {fp32: 128, fp16: 1024},
	75:  {fp32: 128, fp16: 1024, int8: 2048},
	80:  {fp32: 128, tf32: 1024, fp16: 2048, bf16: 2048, int8: 4096},
	86:  {fp32: 256, tf32: 512, fp16: 1024, bf16: 1024, int8: 2048},
	89:  {fp32: 256, tf32: 512, fp16: 1024, bf16: 1024, fp8: 2048, int8: 2048},
	90:  {fp32: 256, tf32: 2048, fp16: 4096, bf16: 4096, fp8: 8192, int8: 8192},
	120: {fp32: 256, tf32: 512, fp16: 1024, bf16: 1024, fp8: 2048, int8: 2048},
}

// Chip describes an NVIDIA card as its driver reports it.
type Chip struct {
	CC       int     // compute capability × 10
	SMs      int     // streaming multiprocessors
	ClockMHz float64 // maximum SM clock
}

// Of returns a card's dense peaks and memory bandwidth in bytes/s by name alone: "NVIDIA H100 80GB HBM3",
// "MI300X", "rtx 4090". An ambiguous name such as "H100" gives the variant with the highest rates. ok is
// false for unknown cards.
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

// peak returns the peak for a type; FLOPS is 0 without a figure.
func (s sheet) peak(d kernels.DType) kernels.Peak {
	p := kernels.Peak{DType: d, FLOPS: s.rates.of(d) * 1e12, Origin: kernels.DataSheet, ClockMHz: s.tensor, Unit: tensorCore}
	if strings.HasPrefix(s.names[0], "MI") {
		p.Unit = matrixCore
	} else if d == kernels.FP32 {
		p.ClockMHz, p.Unit = s.cuda, cudaCore
	}
	return p
}

// Peaks returns the peak rates of a card, the basis of its MFU. They come from the data sheet, or for unknown
// cards from SMs, clock and architecture. A slice or variant of a known card gets its SMs' share of the data
// sheet's rates at the same clock, which keeps MFU comparable. Unknown architectures have no peaks.
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

// MemoryBandwidth returns a card's memory bandwidth in bytes/s. Without a data sheet it assumes two transfers
// per clock over the bus width, at the driver's clock in MHz.
func MemoryBandwidth(name string, sms int, clockMHz float64, busBits int) float64 {
	if s, known := findSheet(name, sms); known {
		return s.gbs * 1e9
	}
	return 2 * clockMHz * 1e6 * float64(busBits) / 8
}
