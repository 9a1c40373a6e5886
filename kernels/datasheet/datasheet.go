// Package datasheet lists peak rates, clocks and memory bandwidth of cards from vendors' data sheets.
package datasheet

import (
	"regexp"
	"slices"
	"strings"

	"github.com/gemmaudit/gemmaudit/kernels"
)

// sheet is a card's data sheet: dense rates and their clocks. Hopper's tensor cores are rated at a lower
// boost clock than its CUDA cores.
type sheet struct {
	// names are the driver's and the vendor's names without the words in [said]. A name matches if the card's
	// name contains all its words, so the shortest name stands for the family.
	names []string
	sms   int // 0: unknown
	// gbs is the memory bandwidth in GB/s.
	gbs float64
	// tensor and cuda are the rated clocks of tensor cores and CUDA cores in MHz; 0 means unknown.
	tensor, cuda float64
	rates        rates
}

// rates are in 10¹² operations/s by data type, accumulated in fp32 or int32 like all kernels here. On GeForce
// cards that is half the advertised rate. 0: not supported, or not in the data sheet.
type rates struct{ fp32, tf32, fp16, bf16, fp8, int8 float64 }

func (r rates) of(d kernels.DType) float64 {
	switch d {
	case kernels.FP32:
		return r.fp32
	case kernels.TF32:
		return r.tf32
	case kernels.FP16:
		return r.fp16
	case kernels.BF16:
		return r.bf16
	case kernels.FP8:
		return r.fp8
	case kernels.INT8:
		return r.int8
	}
	return 0
}

var (
	ga100  = rates{fp32: 19.5, tf32: 156, fp16: 312, bf16: 312, int8: 624}
	gh100  = rates{fp32: 67, tf32: 494.5, fp16: 989.5, bf16: 989.5, fp8: 1979, int8: 1979}
	ghPCIe = rates{fp32: 51, tf32: 378, fp16: 756.5, bf16: 756.5, fp8: 1513, int8: 1513}
	cdna3  = rates{fp32: 163.4, tf32: 653.7, fp16: 1307.4, bf16: 1307.4, fp8: 2614.9, int8: 2614.9}
	ghNVL  = rates{fp32: 60, tf32: 417.5, fp16: 835.5, bf16: 835.5, fp8: 1670.5, int8: 1670.5}
)

// sheets lists the known cards, with dense rates: figures with sparsity are halved. Cards with uncertain
// figures are missing; their peaks are computed.
var sheets = []sheet{
	// NVIDIA V100 data sheet (January 2020). Its tensor cores support only fp16.
	{names: []string{"V100 SXM2", "V100"}, sms: 80, gbs: 900, tensor: 1530, cuda: 1530, rates: rates{fp32: 15.7, fp16: 125}},
	{names: []string{"V100 PCIe"}, sms: 80, gbs: 900, tensor: 1380, cuda: 1380, rates: rates{fp32: 14, fp16: 112}},
	{names: []string{"V100S"}, sms: 80, gbs: 1134, tensor: 1597, cuda: 1597, rates: rates{fp32: 16.4, fp16: 130}},
	// NVIDIA T4 data sheet (2019); boost and SMs: Turing architecture whitepaper.
	{names: []string{"T4"}, sms: 40, gbs: 320, tensor: 1590, cuda: 1590, rates: rates{fp32: 8.1, fp16: 65, int8: 130}},
	// Turing architecture whitepaper, table 3, reference clocks.
	{names: []string{"RTX 2080 Ti"}, sms: 68, gbs: 616, tensor: 1545, cuda: 1545, rates: rates{fp32: 13.4, fp16: 53.8, int8: 215.2}},

	// NVIDIA A100 data sheet (2021); A800: the same chip with slower NVLink.
	{names: []string{"A100-SXM4-40GB", "A100-PCIE-40GB", "A800-SXM4-40GB", "A800 40GB Active", "A100 40GB", "A800 40GB"}, sms: 108,
		gbs: 1555, tensor: 1410, cuda: 1410, rates: ga100},
	{names: []string{"A100-SXM4-80GB", "A100-SXM-80GB", "A800-SXM4-80GB", "A100", "A800"}, sms: 108, gbs: 2039, tensor: 1410, cuda: 1410,
		rates: ga100},
	{names: []string{"A100 80GB PCIe", "A100-PCIE-80GB", "A800 80GB PCIe", "A800-PCIE-80GB", "A100 PCIe", "A800 PCIe"}, sms: 108, gbs: 1935,
		tensor: 1410, cuda: 1410, rates: ga100},
	// NVIDIA A30 data sheet (2021).
	{names: []string{"A30"}, sms: 56, gbs: 933, tensor: 1440, cuda: 1440,
		rates: rates{fp32: 10.3, tf32: 82, fp16: 165, bf16: 165, int8: 330}},
	// NVIDIA A10 data sheet (2021).
	{names: []string{"A10"}, sms: 72, gbs: 600, tensor: 1695, cuda: 1695,
		rates: rates{fp32: 31.2, tf32: 62.5, fp16: 125, bf16: 125, int8: 250}},
	// NVIDIA A10G data sheet (2021), for Amazon's G5 instances: more SMs than the A10, half the tensor core
	// rate.
	{names: []string{"A10G"}, sms: 80, gbs: 600, tensor: 1710, cuda: 1710, rates: rates{fp32: 35, tf32: 35, fp16: 70, bf16: 70, int8: 140}},
	// NVIDIA A40 data sheet (2021).
	{names: []string{"A40"}, sms: 84, gbs: 696, tensor: 1740, cuda: 1740,
		rates: rates{fp32: 37.4, tf32: 74.8, fp16: 149.7, bf16: 149.7, int8: 299.3}},
	// NVIDIA RTX A6000 data sheet (2021).
	{names: []string{"RTX A6000"}, sms: 84, gbs: 768, tensor: 1800, cuda: 1800,
		rates: rates{fp32: 38.7, tf32: 77.4, fp16: 154.8, bf16: 154.8, int8: 309.7}},
	// GA102 architecture whitepaper (2020), appendix A.
	{names: []string{"RTX 3080"}, sms: 68, gbs: 760, tensor: 1710, cuda: 1710,
		rates: rates{fp32: 29.8, tf32: 29.8, fp16: 59.5, bf16: 59.5, int8: 238}},
	{names: []string{"RTX 3090"}, sms: 82, gbs: 936, tensor: 1695, cuda: 1695,
		rates: rates{fp32: 35.6, tf32: 35.6, fp16: 71, bf16: 71, int8: 284}},
	// Ampere GA102 architecture whitepaper, version 2.1 (2022).
	{names: []string{"RTX 3090 Ti"}, sms: 84, gbs: 1008, tensor: 1860, cuda: 1860,
		rates: rates{fp32: 40, tf32: 40, fp16: 80, bf16: 80, int8: 320}},

	// NVIDIA L4 data sheet (2023).
	{names: []string{"L4"}, sms: 58, gbs: 300, tensor: 2040, cuda: 2040,
		rates: rates{fp32: 30.3, tf32: 60, fp16: 121, bf16: 121, fp8: 242.5, int8: 242.5}},
	// NVIDIA L40 data sheet (2022): half the tensor core rate of the L40S.
	{names: []string{"L40"}, sms: 142, gbs: 864, tensor: 2490, cuda: 2490,
		rates: rates{fp32: 90.5, tf32: 90.5, fp16: 181.05, bf16: 181.05, fp8: 362, int8: 362}},
	// NVIDIA L20 product brief (2023): like the L40, with fewer SMs.
	{names: []string{"L20"}, sms: 92, gbs: 864, tensor: 2520, cuda: 2520,
		rates: rates{fp32: 59.8, tf32: 59.8, fp16: 119.5, bf16: 119.5, fp8: 239, int8: 239}},
	// NVIDIA L40S data sheet (2023). Its fp16 figures, 362.05 dense and 733 sparse, are for two clocks; this
	// is half the sparse one.
	{names: []string{"L40S"}, sms: 142, gbs: 864, tensor: 2520, cuda: 2520,
		rates: rates{fp32: 91.6, tf32: 183, fp16: 366.5, bf16: 366.5, fp8: 733, int8: 733}},
	// Ada GPU architecture whitepaper (2022), appendix A.
	{names: []string{"RTX 4090"}, sms: 128, gbs: 1008, tensor: 2520, cuda: 2520,
		rates: rates{fp32: 82.6, tf32: 82.6, fp16: 165.2, bf16: 165.2, fp8: 330.3, int8: 660.6}},
	{names: []string{"RTX 4080"}, sms: 76, gbs: 716.8, tensor: 2505, cuda: 2505,
		rates: rates{fp32: 48.7, tf32: 48.7, fp16: 97.5, bf16: 97.5, fp8: 194.9, int8: 389.9}},
	// NVIDIA RTX 6000 Ada Generation data sheet (2023): fp8 is 1457 with sparsity.
	{names: []string{"RTX 6000 Ada"}, sms: 142, gbs: 960, tensor: 2505, cuda: 2505,
		rates: rates{fp32: 91.1, tf32: 182.1, fp16: 364.2, bf16: 364.2, fp8: 728.5, int8: 728.5}},

	// NVIDIA H100 data sheet (2023). Clocks: Hopper architecture whitepaper; the tensor core clock follows
	// from SMs and rate. H800: the same chip with slower NVLink.
	{names: []string{"H100 80GB HBM3", "H100 SXM5 80GB", "H100", "H800"}, sms: 132, gbs: 3350, tensor: 1830, cuda: 1980, rates: gh100},
	{names: []string{"H100 PCIe", "H100 80GB HBM2e", "H800 PCIe"}, sms: 114, gbs: 2039, tensor: 1620, cuda: 1755, rates: ghPCIe},
	{names: []string{"H100 NVL"}, sms: 132, gbs: 3938, tensor: 1545, cuda: 1785, rates: ghNVL},
	// NVIDIA H200 data sheet (2024).
	{names: []string{"H200"}, sms: 132, gbs: 4800, tensor: 1830, cuda: 1980, rates: gh100},
	{names: []string{"H200 NVL"}, sms: 132, gbs: 4800, tensor: 1545, cuda: 1785, rates: ghNVL},
	// NVIDIA GH200 Grace Hopper Superchip data sheet (2023), HBM3 and HBM3e.
	{names: []string{"GH200 480GB", "GH200"}, sms: 132, gbs: 4000, tensor: 1830, cuda: 1980, rates: gh100},
	{names: []string{"GH200 144G HBM3e"}, sms: 132, gbs: 4900, tensor: 1830, cuda: 1980, rates: gh100},
	// H20 product brief (2023). Its tensor cores are limited below the chip's rate and its clock is unknown,
	// so rates can't be computed from SMs.
	{names: []string{"H20"}, gbs: 4000, rates: rates{fp32: 44, tf32: 74, fp16: 148, bf16: 148, fp8: 296, int8: 296}},

	// NVIDIA HGX B200 and B100 data sheet (2024), 1/8 of the board's figures.
	{names: []string{"B200"}, gbs: 8000, rates: rates{fp32: 75, tf32: 1125, fp16: 2250, bf16: 2250, fp8: 4500, int8: 4500}},
	{names: []string{"B100"}, gbs: 8000, rates: rates{fp32: 60, tf32: 875, fp16: 1750, bf16: 1750, fp8: 3500, int8: 3500}},
	// NVIDIA GB200 NVL72 data sheet (2024), half of a superchip's figures.
	{names: []string{"GB200"}, gbs: 8000, rates: rates{fp32: 80, tf32: 1250, fp16: 2500, bf16: 2500, fp8: 5000, int8: 5000}},
	// NVIDIA HGX B300 data sheet (2025), 1/8 of the board's figures, and GB300 NVL72 data sheet (2025), 1/72
	// of the rack's. int8 is missing because the sheets round it to one digit.
	{names: []string{"B300"}, gbs: 8000, rates: rates{fp32: 75, tf32: 1125, fp16: 2250, bf16: 2250, fp8: 4500}},
	{names: []string{"GB300"}, gbs: 8000, rates: rates{fp32: 80, tf32: 1250, fp16: 2500, bf16: 2500, fp8: 5000}},
	// NVIDIA DGX Spark data sheet (2025): 1000 in sparse fp4; each doubling of the width halves the rate.
	{names: []string{"GB10"}, gbs: 273, rates: rates{fp16: 125, bf16: 125, fp8: 250}},
	// NVIDIA RTX PRO 6000 Blackwell data sheets (2025). The two workstation sheets give sparse fp4; other
	// rates follow from SMs and clock.
	{names: []string{"RTX PRO 6000 Blackwell Workstation", "RTX PRO 6000", "RTX PRO 6000 Blackwell"}, sms: 188, gbs: 1792, tensor: 2617,
		cuda: 2617, rates: rates{fp32: 126, tf32: 251.9, fp16: 503.8, bf16: 503.8, fp8: 1007.6, int8: 1007.6}},
	{names: []string{"RTX PRO 6000 Blackwell Max-Q Workstation", "RTX PRO 6000 Max-Q"}, sms: 188, gbs: 1792, tensor: 2280, cuda: 2280,
		rates: rates{fp32: 110, tf32: 219.4, fp16: 438.9, bf16: 438.9, fp8: 877.8, int8: 877.8}},
	{names: []string{"RTX PRO 6000 Blackwell Server", "RTX PRO 6000 Server"}, gbs: 1597,
		rates: rates{fp32: 120, tf32: 250, fp16: 500, bf16: 500, fp8: 1000, int8: 1000}},
	// RTX Blackwell GPU architecture whitepaper (2025), appendix A.
	{names: []string{"RTX 5080"}, sms: 84, gbs: 960, tensor: 2617, cuda: 2617,
		rates: rates{fp32: 56.3, tf32: 56.3, fp16: 112.6, bf16: 112.6, fp8: 225.1, int8: 450.2}},
	{names: []string{"RTX 5090"}, sms: 170, gbs: 1792, tensor: 2407, cuda: 2407,
		rates: rates{fp32: 104.8, tf32: 104.8, fp16: 209.5, bf16: 209.5, fp8: 419, int8: 838}},

	// AMD Instinct MI100 brochure (2020), matrix core rates.
	{names: []string{"MI100"}, gbs: 1228.8, rates: rates{fp32: 46.1, fp16: 184.6, bf16: 92.3, int8: 184.6}},
	// AMD Instinct MI200 series data sheet (2022), matrix core rates. The two dies of MI250 and MI250X are
	// separate devices: half of the module's figures.
	{names: []string{"MI210"}, gbs: 1638.4, rates: rates{fp32: 45.3, fp16: 181, bf16: 181, int8: 181}},
	{names: []string{"MI250"}, gbs: 1638.4, rates: rates{fp32: 45.3, fp16: 181, bf16: 181, int8: 181}},
	{names: []string{"MI250X", "MI250X MI250"}, gbs: 1638.4, rates: rates{fp32: 47.9, fp16: 191.5, bf16: 191.5, int8: 191.5}},
	// AMD Instinct MI300A, MI300X (2023) and MI325X (2024) data sheets.
	{names: []string{"MI300A"}, gbs: 5300, rates: rates{fp32: 122.6, tf32: 490.3, fp16: 980.6, bf16: 980.6, fp8: 1961.2, int8: 1961.2}},
	{names: []string{"MI300X"}, gbs: 5300, rates: cdna3},
	{names: []string{"MI325X"}, gbs: 6000, rates: cdna3},
	// AMD Instinct MI350X and MI355X data sheets (2025). tf32 is emulated.
	{names: []string{"MI350X"}, gbs: 8000, rates: rates{fp32: 144.2, fp16: 2306.9, bf16: 2306.9, fp8: 4613.7, int8: 4613.7}},
	{names: []string{"MI355X"}, gbs: 8000, rates: rates{fp32: 157.3, fp16: 2516.6, bf16: 2516.6, fp8: 5033.2, int8: 5033.2}},
}

// findSheet looks a card up by the driver's name. The SMs must match too: MIG instances and cut-down variants
// have fewer.
func findSheet(name string, sms int) (sheet, bool) {
	s, ok := named(name)
	return s, ok && (s.sms == 0 || s.sms == sms)
}

// findAlike returns the full card's data sheet for a MIG slice or a variant with other SMs, if it gives SMs
// and clock.
func findAlike(name string) (sheet, bool) {
	whole, _, _ := strings.Cut(name, " MIG ")
	s, ok := named(whole)
	return s, ok && s.sms > 0 && s.tensor > 0
}

// named returns the sheet with the longest matching name. Other words of the card's name must match [aside]:
// "RTX 4090 D" does not match RTX 4090.
func named(card string) (best sheet, ok bool) {
	have, most := words(card), 0
	for _, s := range sheets {
		for _, name := range s.names {
			want := words(name)
			if len(want) <= most || slices.ContainsFunc(want, func(w string) bool { return !slices.Contains(have, w) }) ||
				slices.ContainsFunc(have, func(w string) bool { return !slices.Contains(want, w) && !aside.MatchString(w) }) {
				continue
			}
			best, ok, most = s, true, len(want)
		}
	}
	return best, ok
}

var (
	// aside matches words that do not change the model: memory, form factor, power.
	aside = regexp.MustCompile(`^([0-9]+gb|hbm[0-9]?e?|gddr[0-9]+x?|sxm[0-9]?|pcie|oam|hgx|dgx|[0-9]+w)$`)
	// said are brands and generic words.
	said = []string{"nvidia", "amd", "tesla", "geforce", "quadro", "radeon", "instinct", "gpu", "accelerator", "graphics", "tensor", "core",
		"generation", "edition", "corporation", "r", "tm"}
	// glued is a brand joined to its model number; parted is a memory size or power with a space.
	glued  = regexp.MustCompile(`\b(rtx|gtx|pro)([0-9])`)
	parted = regexp.MustCompile(`\b([0-9]+) (gb|w)\b`)
)

// words splits a card's name into lower-case words without those in [said].
func words(name string) []string {
	name = strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' || r == '.' {
			return r
		}
		return ' '
	}, strings.ToLower(name))
	name = strings.Join(strings.Fields(name), " ")
	name = parted.ReplaceAllString(glued.ReplaceAllString(name, "$1 $2"), "$1$2")
	return slices.DeleteFunc(strings.Fields(name), func(w string) bool { return slices.Contains(said, w) })
}
