package report

import (
	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/rules/stats"
)

func fixtureDecodeBench() *DecodeBench {
	return &DecodeBench{
		Model: "mistral-7b", Device: "cuda:0", Name: "NVIDIA H200", DType: kernels.FP16, Kernel: "auto", Fused: true,
		ReadBandwidth: 4.59e12, CopyBandwidth: 4.3e12, BandwidthSamples: 10,
		Rates: []DecodeRate{
			{Context: 128, Tokens: 64, Samples: 9, Prefill: stats.Interval{Lo: 20100, Mid: 20345.6, Hi: 20500},
				Decode: stats.Interval{Lo: 270.1, Mid: 271.94, Hi: 272.5}, TokenBytes: 14243000000},
			{Context: 4096, Tokens: 64, Samples: 9, Prefill: stats.Interval{Lo: 38000, Mid: 39000, Hi: 41000},
				Decode: stats.Interval{Lo: 250, Mid: 255.25, Hi: 255.5}, TokenBytes: 14760000000},
		},
	}
}

func fixtureModelValidation() *ModelValidation {
	seconds := func(us ...float64) []float64 {
		for i := range us {
			us[i] /= 1e6
		}
		return us
	}
	profile := PassTimes{Kernel: "auto", Rows: 512, Seconds: seconds(16000, 16100, 15900), Parts: []PartTimes{
		{Part: "embed", Launches: 1, Seconds: seconds(3, 3, 4)},
		{Part: "qkv_proj", Launches: 32, Seconds: seconds(2000, 2001, 1999), FLOPs: 8.2e11, Bytes: 1.6e9},
		{Part: "attention", Launches: 32, Seconds: seconds(500, 501, 502)},
		{Part: "down_proj", Launches: 32, Seconds: seconds(3800, 3802, 3801), FLOPs: 1.9e12, Bytes: 3.7e9},
	}}
	token := PassTimes{Kernel: "auto", Rows: 1, Context: 4000, Seconds: seconds(3700), Parts: []PartTimes{
		{Part: "qkv_proj", Launches: 32, Seconds: seconds(360), FLOPs: 1.6e9, Bytes: 1.6e9},
	}}
	peak := kernels.Peak{FLOPS: 989.5e12, Origin: kernels.DataSheet}
	return &ModelValidation{
		ValidatedModel: ValidatedModel{Model: "mistral-7b", Device: "cuda:0", Name: "NVIDIA H200", DType: kernels.FP16, Tokens: 32,
			Reference: 12.3456789, Bound: 0.02},
		Kernels: []KernelCheck{
			{Kernel: "auto", Error: 0.00123, RMS: 0.000234, Agreement: 1, Perplexity: 12.3461, Passed: true},
			{Kernel: "mma", Error: 0.31, RMS: 0.05, Agreement: 0.25, Perplexity: 19.2},
			{Kernel: "tiled", Error: 0.0021, RMS: 0.000234, Agreement: 1, Perplexity: 12.3462, Passed: true, Choices: 1024, Rounded: 7,
				Untimed: "not timed, because it takes about 5m"},
			{Kernel: "simt", Error: 0.21, RMS: 0.03, Agreement: 0.5, Perplexity: 14.2, Choices: 1024, Rounded: 3, Wrong: 40},
			{Kernel: "gemv", Skipped: "takes up to 8 rows of A, not 32"},
		},
		Passes: []PassProfile{NewPassProfile(profile, peak, 4.59e12), NewPassProfile(token, kernels.Peak{}, 0)},
		Prefills: []TableGain{
			{Kernel: "cublas", Rows: 704, Applied: 64, Products: 128, PlainUS: 21000, TableUS: 20000,
				Gain: stats.Interval{Lo: 1.03, Mid: 1.05, Hi: 1.06}},
			{Kernel: "cublas", Rows: 1160, Applied: 32, Products: 128, PlainUS: 30000, TableUS: 30010,
				Gain: stats.Interval{Lo: 0.99, Mid: 0.9997, Hi: 1.01}},
			{Kernel: "cublas", Rows: 1200, Applied: 32, Products: 128, PlainUS: 30000, TableUS: 31000,
				Gain: stats.Interval{Lo: 0.96, Mid: 0.968, Hi: 0.97}},
		},
	}
}

func fixturePerplexity() *Perplexity {
	return &Perplexity{Model: "mistral-7b", Device: "cpu", DType: kernels.BF16, Kernel: "tiled", Threads: 2, Tokens: 4096,
		Perplexity: 5.32123456789}
}
