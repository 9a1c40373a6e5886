package datasheet

import (
	"math"
	"strings"
	"testing"

	"github.com/gemmaudit/gemmaudit/kernels"
)

// architectures are compute capabilities of the cards whose data sheets give SMs and clock.
var architectures = map[string]int{
	"V100 SXM2": 70, "V100 PCIe": 70, "V100S": 70, "RTX A6000": 86, "RTX 3080": 86, "RTX 3090 Ti": 86, "RTX 4080": 89, "RTX 6000 Ada": 89,
	"RTX PRO 6000 Blackwell Workstation": 120, "RTX PRO 6000 Blackwell Max-Q Workstation": 120, "RTX 5080": 120,
	"T4": 75, "RTX 2080 Ti": 75, "A100-SXM4-40GB": 80, "A100-SXM4-80GB": 80, "A100 80GB PCIe": 80, "A30": 80, "A10": 86, "A10G": 86,
	"A40":      86,
	"RTX 3090": 86, "L4": 89, "L20": 89, "L40": 89, "L40S": 89, "RTX 4090": 89, "H100 80GB HBM3": 90, "H100 PCIe": 90, "H100 NVL": 90,
	"H200":     90,
	"H200 NVL": 90, "GH200 480GB": 90, "GH200 144G HBM3e": 90, "RTX 5090": 120,
}

// SMs × clock × operations per clock must give every figure, which catches typing errors in the table.
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
		driver := name + " of another name" // not in the table, so its peak is computed
		if strings.HasPrefix(name, "RTX") && !strings.HasPrefix(name, "RTX A6000") && !strings.HasPrefix(name, "RTX 6000") &&
			!strings.HasPrefix(name, "RTX PRO") {
			driver = "NVIDIA GeForce " + driver
		}
		halved := map[string]bool{"L40": true, "L20": true, "A10G": true}[name]
		for _, d := range kernels.DTypes() {
			clock := s.tensor
			if d == kernels.FP32 {
				clock = s.cuda
			}
			var computed float64
			for _, p := range Peaks(driver, Chip{CC: cc, SMs: s.sms, ClockMHz: clock}) {
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
	h200 := Chip{CC: 90, SMs: 132, ClockMHz: 1980}
	for _, c := range []struct {
		name string
		a    Chip
		d    kernels.DType
		want kernels.Peak
	}{
		{"NVIDIA H200", h200, kernels.BF16,
			kernels.Peak{DType: kernels.BF16, FLOPS: 989.5e12, Origin: kernels.DataSheet, ClockMHz: 1830, Unit: tensorCore}},
		{"NVIDIA H200", h200, kernels.FP32,
			kernels.Peak{DType: kernels.FP32, FLOPS: 67e12, Origin: kernels.DataSheet, ClockMHz: 1980, Unit: cudaCore}},
		{"NVIDIA H200 MIG 1g.18gb", Chip{CC: 90, SMs: 33, ClockMHz: 1980}, kernels.BF16,
			kernels.Peak{DType: kernels.BF16, FLOPS: 989.5e12 / 4, Origin: kernels.Computed, ClockMHz: 1830, Unit: tensorCore}},
		{"NVIDIA H200 MIG 1g.18gb", Chip{CC: 90, SMs: 33, ClockMHz: 1980}, kernels.FP32,
			kernels.Peak{DType: kernels.FP32, FLOPS: 67e12 / 4, Origin: kernels.Computed, ClockMHz: 1980, Unit: cudaCore}},
		// The variant keeps the L40's halved tensor core rate.
		{"NVIDIA L40", Chip{CC: 89, SMs: 71, ClockMHz: 2520}, kernels.FP16,
			kernels.Peak{DType: kernels.FP16, FLOPS: 181.05e12 / 2, Origin: kernels.Computed, ClockMHz: 2490, Unit: tensorCore}},
		{"NVIDIA A10G", Chip{CC: 86, SMs: 80, ClockMHz: 1710}, kernels.FP16,
			kernels.Peak{DType: kernels.FP16, FLOPS: 70e12, Origin: kernels.DataSheet, ClockMHz: 1710, Unit: tensorCore}},
		{"NVIDIA GeForce RTX 3060", Chip{CC: 86, SMs: 28, ClockMHz: 1777}, kernels.FP16,
			kernels.Peak{DType: kernels.FP16, FLOPS: 28 * 512 * 1777e6, Origin: kernels.Computed, ClockMHz: 1777, Unit: tensorCore}},
		{"Tesla T4", Chip{CC: 75, SMs: 40, ClockMHz: 1590}, kernels.INT8,
			kernels.Peak{DType: kernels.INT8, FLOPS: 130e12, Origin: kernels.DataSheet, ClockMHz: 1590, Unit: tensorCore}},
	} {
		if got := peakOf(t, Peaks(c.name, c.a), c.d); got != c.want {
			t.Errorf("%s: got %+v, want %+v", c.name, got, c.want)
		}
	}
	for _, p := range Peaks("Tesla T4", Chip{CC: 75, SMs: 40, ClockMHz: 1590}) {
		if p.DType == kernels.BF16 || p.DType == kernels.FP8 || p.DType == kernels.TF32 {
			t.Errorf("Turing has no %s, its peak is %v", p.DType, p.FLOPS)
		}
	}
	if p := Peaks("NVIDIA X1", Chip{CC: 130, SMs: 200, ClockMHz: 2500}); p != nil {
		t.Errorf("an architecture that is not known has the peaks %v", p)
	}
}

func TestMemoryBandwidth(t *testing.T) {
	if got := MemoryBandwidth("NVIDIA H200", 132, 3201, 6144); got != 4800e9 {
		t.Errorf("H200: %v", got)
	}
	// The driver's clock of a GDDR6X card gives the data sheet's bandwidth.
	if got := MemoryBandwidth("NVIDIA GeForce RTX 3090 somehow", 82, 9751, 384); math.Abs(got-936e9) > 1e9 {
		t.Errorf("384 bits at 9751 MHz: %v", got)
	}
}

func TestOf(t *testing.T) {
	for _, c := range []struct {
		names     []string
		bf16      float64 // 10¹² operations/s; 0: unknown card
		bandwidth float64 // GB/s
	}{
		{[]string{"NVIDIA H100 80GB HBM3", "H100", "H100 SXM", "h100-sxm5-80gb", "NVIDIA_H100_80GB_HBM3", "NVIDIA H100 Tensor Core GPU",
			"H100 80 GB"}, 989.5, 3350},
		{[]string{"NVIDIA H100 PCIe", "H100-PCIE-80GB"}, 756.5, 2039},
		{[]string{"NVIDIA H100 NVL", "H100 NVL 94GB"}, 835.5, 3938},
		{[]string{"MI300X", "AMD Instinct MI300X", "AMD Instinct MI300X OAM", "AMD Instinct(TM) MI300X 192GB HBM3", "mi300x"}, 1307.4,
			5300},
		{[]string{"MI325X"}, 1307.4, 6000},
		{[]string{"AMD Instinct MI250X", "AMD Radeon Instinct MI250X / MI250"}, 191.5, 1638.4},
		{[]string{"MI355X"}, 2516.6, 8000},
		{[]string{"RTX 4090", "NVIDIA GeForce RTX 4090", "rtx4090", "GeForce RTX 4090 24GB"}, 165.2, 1008},
		{[]string{"A100", "NVIDIA A100-SXM4-80GB", "A100 80GB"}, 312, 2039},
		{[]string{"NVIDIA A100-PCIE-40GB", "A100 40GB", "A100 SXM4 40GB"}, 312, 1555},
		{[]string{"NVIDIA A800 80GB PCIe"}, 312, 1935},
		{[]string{"NVIDIA H200", "H200 141GB HBM3e", "NVIDIA H200 SXM"}, 989.5, 4800},
		{[]string{"NVIDIA H20"}, 148, 4000},
		{[]string{"NVIDIA B200", "B200 180GB HBM3e", "HGX B200"}, 2250, 8000},
		{[]string{"NVIDIA GB200"}, 2500, 8000},
		{[]string{"NVIDIA GB10"}, 125, 273},
		{[]string{"NVIDIA RTX 6000 Ada Generation"}, 364.2, 960},
		{[]string{"NVIDIA RTX PRO 6000 Blackwell Workstation Edition", "RTX PRO 6000"}, 503.8, 1792},
		{[]string{"NVIDIA RTX PRO 6000 Blackwell Server Edition"}, 500, 1597},
		{[]string{"", "RTX 4090 D", "NVIDIA GeForce RTX 4090 Laptop GPU", "NVIDIA H100 80GB HBM3 MIG 1g.10gb", "Quadro RTX 6000", "GH100",
			"A100X", "cpu", "8xH100",
			"L40S-24Q", "H100 A100", "card", "4090"}, 0, 0},
	} {
		for _, name := range c.names {
			peaks, bandwidth, ok := Of(name)
			p, _ := kernels.Ceilings{Peaks: peaks}.Peak(kernels.BF16)
			if ok != (c.bf16 > 0) || p.FLOPS != c.bf16*1e12 || bandwidth != c.bandwidth*1e9 || ok && p.Origin != kernels.DataSheet {
				t.Errorf("%q: %+v, %v GB/s, %v; want %v TFLOP/s, %v GB/s", name, p, bandwidth/1e9, ok, c.bf16, c.bandwidth)
			}
		}
	}
}

func TestEverySheetIsFound(t *testing.T) {
	for _, s := range sheets {
		for _, name := range s.names {
			got, ok := named(name)
			if !ok || got.names[0] != s.names[0] {
				t.Errorf("%s leads to %v", name, got.names)
			}
		}
		if r := s.rates; r.fp16 <= 0 || r.fp32 > r.fp16 || r.tf32 > r.fp16 || r.fp8 > 0 && math.Abs(r.fp8-2*r.fp16) > 0.01*r.fp8 {
			t.Errorf("%s: rates out of proportion: %+v", s.names[0], r)
		}
	}
}

func FuzzOf(f *testing.F) {
	f.Add("NVIDIA H100 80GB HBM3")
	f.Add("AMD Instinct MI300X")
	f.Fuzz(func(t *testing.T, name string) {
		peaks, bandwidth, ok := Of(name)
		if ok != (len(peaks) > 0 && bandwidth > 0) {
			t.Errorf("%q: %v, %v, %v", name, peaks, bandwidth, ok)
		}
		if again, _, _ := Of(strings.ToUpper(name)); len(again) != len(peaks) &&
			strings.ToLower(strings.ToUpper(name)) == strings.ToLower(name) {
			t.Errorf("%q: case matters", name)
		}
	})
}
