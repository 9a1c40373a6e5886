package datasheet

import (
	"math"
	"testing"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/planning"
)

// architectures of the cards whose data sheets tell SMs and clock.
var architectures = map[string]int{
	"T4": 75, "RTX 2080 Ti": 75, "A100-SXM4-40GB": 80, "A100-SXM4-80GB": 80, "A100 80GB PCIe": 80, "A30": 80, "A10": 86, "A10G": 86, "A40": 86,
	"RTX 3090": 86, "L4": 89, "L20": 89, "L40": 89, "L40S": 89, "RTX 4090": 89, "H100 80GB HBM3": 90, "H100 PCIe": 90, "H100 NVL": 90, "H200": 90,
	"H200 NVL": 90, "GH200 480GB": 90, "GH200 144G HBM3e": 90, "RTX 5090": 120,
}

// TestSheetsAgreeWithTheirClocks: SMs × clock × operations of the architecture come
// to every figure of every data sheet, so a slip in one of the numbers shows.
func TestSheetsAgreeWithTheirClocks(t *testing.T) {
	seen := map[string]bool{}
	for _, s := range sheets {
		for _, name := range s.names {
			if seen[name] {
				t.Errorf("%s is there twice", name)
			}
			seen[name] = true
		}
		if s.gbs <= 0 {
			t.Errorf("%s has no bandwidth", s.names[0])
		}
		if s.sms == 0 || s.tensor == 0 {
			continue
		}
		name := s.names[0]
		cc := architectures[name]
		driver := name + " of another name" // so that its peak is computed
		if len(name) > 3 && name[:3] == "RTX" {
			driver = "NVIDIA GeForce " + driver
		}
		// See their entries.
		halved := map[string]bool{"L40": true, "L20": true, "A10G": true}[name]
		for _, d := range kernels.DTypes() {
			clock := s.tensor
			if d == kernels.FP32 {
				clock = s.cuda
			}
			var computed float64
			for _, p := range Peaks(driver, planning.Arch{CC: cc, SMs: s.sms, ClockMHz: clock}) {
				if p.DType == d && p.Origin == kernels.Computed {
					computed = p.FLOPS / 1e12
				}
			}
			if halved && d != kernels.FP32 {
				computed /= 2
			}
			if want := s.rates.of(d); math.Abs(computed-want) > 0.012*want {
				t.Errorf("%s %s: the data sheet says %v, SMs and clock come to %.2f", name, d, want, computed)
			}
		}
	}
}

func peakOf(t *testing.T, peaks []kernels.Peak, d kernels.DType) kernels.Peak {
	t.Helper()
	p, ok := kernels.Ceilings{Peaks: peaks}.Peak(d)
	if !ok {
		t.Fatalf("no peak of %s among %v", d, peaks)
	}
	return p
}

func TestPeaks(t *testing.T) {
	h200 := planning.Arch{CC: 90, SMs: 132, ClockMHz: 1980}
	for _, c := range []struct {
		name string
		a    planning.Arch
		d    kernels.DType
		want kernels.Peak
	}{
		{"NVIDIA H200", h200, kernels.BF16, kernels.Peak{DType: kernels.BF16, FLOPS: 989.5e12, Origin: kernels.DataSheet, ClockMHz: 1830, Unit: tensorCore}},
		{"NVIDIA H200", h200, kernels.FP32, kernels.Peak{DType: kernels.FP32, FLOPS: 67e12, Origin: kernels.DataSheet, ClockMHz: 1980, Unit: cudaCore}},
		// A slice of a card, under the card's name: at the clock of the whole card's data sheet.
		{"NVIDIA H200 MIG 1g.18gb", planning.Arch{CC: 90, SMs: 33, ClockMHz: 1980}, kernels.BF16,
			kernels.Peak{DType: kernels.BF16, FLOPS: 989.5e12 / 4, Origin: kernels.Computed, ClockMHz: 1830, Unit: tensorCore}},
		{"NVIDIA H200 MIG 1g.18gb", planning.Arch{CC: 90, SMs: 33, ClockMHz: 1980}, kernels.FP32,
			kernels.Peak{DType: kernels.FP32, FLOPS: 67e12 / 4, Origin: kernels.Computed, ClockMHz: 1980, Unit: cudaCore}},
		// A variant of another number of SMs, whose tensor cores are held to half the rate of their architecture.
		{"NVIDIA L40", planning.Arch{CC: 89, SMs: 71, ClockMHz: 2520}, kernels.FP16,
			kernels.Peak{DType: kernels.FP16, FLOPS: 181.05e12 / 2, Origin: kernels.Computed, ClockMHz: 2490, Unit: tensorCore}},
		{"NVIDIA A10G", planning.Arch{CC: 86, SMs: 80, ClockMHz: 1710}, kernels.FP16,
			kernels.Peak{DType: kernels.FP16, FLOPS: 70e12, Origin: kernels.DataSheet, ClockMHz: 1710, Unit: tensorCore}},
		{"NVIDIA GeForce RTX 3060", planning.Arch{CC: 86, SMs: 28, ClockMHz: 1777}, kernels.FP16,
			kernels.Peak{DType: kernels.FP16, FLOPS: 28 * 512 * 1777e6, Origin: kernels.Computed, ClockMHz: 1777, Unit: tensorCore}},
		{"Tesla T4", planning.Arch{CC: 75, SMs: 40, ClockMHz: 1590}, kernels.INT8,
			kernels.Peak{DType: kernels.INT8, FLOPS: 130e12, Origin: kernels.DataSheet, ClockMHz: 1590, Unit: tensorCore}},
	} {
		if got := peakOf(t, Peaks(c.name, c.a), c.d); got != c.want {
			t.Errorf("%s: got %+v, want %+v", c.name, got, c.want)
		}
	}
	for _, p := range Peaks("Tesla T4", planning.Arch{CC: 75, SMs: 40, ClockMHz: 1590}) {
		if p.DType == kernels.BF16 || p.DType == kernels.FP8 || p.DType == kernels.TF32 {
			t.Errorf("Turing has no %s, its peak is %v", p.DType, p.FLOPS)
		}
	}
	if p := Peaks("NVIDIA X1", planning.Arch{CC: 130, SMs: 200, ClockMHz: 2500}); p != nil {
		t.Errorf("an architecture that is not known has the peaks %v", p)
	}
}

func TestMemoryBandwidth(t *testing.T) {
	if got := MemoryBandwidth("NVIDIA H200", 132, 3201, 6144); got != 4800e9 {
		t.Errorf("H200: %v", got)
	}
	// The driver's clock of a GDDR6X card, against its data sheet.
	if got := MemoryBandwidth("NVIDIA GeForce RTX 3090 somehow", 82, 9751, 384); math.Abs(got-936e9) > 1e9 {
		t.Errorf("384 bits at 9751 MHz: %v", got)
	}
}
