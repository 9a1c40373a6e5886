package sweep

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/gemmaudit/gemmaudit/kernels"
)

// Preset is a named choice of what to sweep and how thoroughly. Explicit user options override it.
type Preset struct {
	Name        string
	Description string
	Models      []string // in the syntax of ParseModel
	Batches     string   // in the syntax of ParseBatches
	// DTypes are measured if a device has them; the host also measures fp32.
	DTypes []kernels.DType
	// Algorithms is how many further choices of each library are measured.
	Algorithms int
	// Infer enables inference for long series, with rows that a designer chooses.
	Infer bool
	// MaxKernels limits the kernels per data type, ours first; 0 means no limit.
	MaxKernels        int
	Screening, Rounds int
	BlockTarget       time.Duration
	// Budget thins the preset's own grid. Deadline has a margin for what the estimate omits, and does not cut
	// explicit requests.
	Budget, Deadline time.Duration
}

var presets = []Preset{
	{
		Name:        "quick",
		Description: "one projection of Llama 3 8B over small and middle batches, about a minute",
		Models:      []string{"llama3-8b:k_proj"},
		// Fine where tile edges cost most.
		Batches:   "1,2,4:128:4,160:512:32",
		DTypes:    []kernels.DType{kernels.BF16},
		Screening: 7, Rounds: 35,
		BlockTarget: 4 * time.Millisecond,
		Budget:      50 * time.Second, Deadline: 72 * time.Second,
	},
	{
		Name:        "standard",
		Description: "the four products of a Llama 3 8B layer, decode to long prefill, half an hour",
		Models:      []string{"llama3-8b"},
		Batches:     "1:32,40:256:8,272:1024:16,1088:4096:64",
		DTypes:      []kernels.DType{kernels.BF16},
		Screening:   7, Rounds: 35,
		BlockTarget: 5 * time.Millisecond,
		Budget:      25 * time.Minute, Deadline: 35 * time.Minute,
	},
	{
		Name:        "overnight",
		Description: "five products of Llama 3 8B at every batch up to 32768, most of them inferred, eight hours",
		// As engines run them, with gate and up projection fused and separate.
		Models:     []string{"llama3-8b:qkv_proj+o_proj+gate_up_proj+gate_proj+down_proj"},
		Batches:    "1:32768",
		DTypes:     []kernels.DType{kernels.BF16, kernels.FP16, kernels.FP8, kernels.INT8},
		Algorithms: 2,
		Infer:      true,
		Screening:  7, Rounds: 35,
		BlockTarget: 5 * time.Millisecond,
		Budget:      6*time.Hour + 30*time.Minute, Deadline: 8 * time.Hour,
	},
}

// Presets lists the presets, cheapest first.
func Presets() []Preset { return append([]Preset(nil), presets...) }

// PresetNames lists the names of the presets, for completion.
func PresetNames() []string {
	names := make([]string, len(presets))
	for i, p := range presets {
		names[i] = p.Name
	}
	return names
}

// FindPreset returns a preset by name; an empty name is standard.
func FindPreset(name string) (Preset, error) {
	if name == "" {
		name = "standard"
	}
	for _, p := range presets {
		if strings.EqualFold(p.Name, name) {
			return p, nil
		}
	}
	return Preset{}, fmt.Errorf("unknown preset %q: expected one of %s", name, strings.Join(PresetNames(), ", "))
}

// LadderKernels is the kernel name that selects each of our own matrix kernels.
const LadderKernels = kernels.Ladder

// rungs lists our kernels of an operation's ladder.
func rungs(o kernels.Operation, all []kernels.Kernel) []kernels.Kernel {
	return slices.DeleteFunc(slices.Clone(all), func(k kernels.Kernel) bool { return o.Definition().Ladder[k.Name()] == "" })
}

// A host also gets fp32, often its fastest type.
func (p Preset) dtypes(d kernels.Device) []kernels.DType {
	if d.Spec().Kind.Facts().Host && !slices.Contains(p.DTypes, kernels.FP32) {
		return append(slices.Clone(p.DTypes), kernels.FP32)
	}
	return p.DTypes
}

// With fewer Ms, a designer would measure most of them anyway.
const leastInferred = 64

func infers(o kernels.Operation, ms Batches) bool {
	return o.IsProduct() && len(ms) >= leastInferred
}
