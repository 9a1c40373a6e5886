package sweep

import (
	"fmt"
	"strings"
	"time"

	"github.com/gemmaudit/gemmaudit/kernels"
)

// Preset is a named choice of what to sweep and how thoroughly. What the user
// gives explicitly takes the place of the preset's choice.
type Preset struct {
	Name        string
	Description string
	Models      []string // as ParseModel reads them
	Batches     string   // as ParseBatches reads them
	// DTypes are measured where a device has them; fp32 too where the device is the host.
	DTypes []kernels.DType
	// Algorithms is how many further choices of each library are measured.
	Algorithms int
	// Infer says that long series are inferred from the rows that a designer chooses.
	Infer bool
	// MaxKernels bounds the kernels of a data type, ours first; 0 is no bound.
	MaxKernels        int
	Screening, Rounds int
	BlockTarget       time.Duration
	// Budget thins the preset's own grid until the estimate of its rounds fits.
	// Deadline is the bound that the user's replaces; it leaves room for what the
	// estimate does not know, and does not cut what the user asks for by name.
	Budget, Deadline time.Duration
}

// presets in order of cost.
var presets = []Preset{
	{
		Name:        "quick",
		Description: "one projection of Llama 3 8B over small and middle batches, about a minute",
		Models:      []string{"llama3-8b:k_proj"},
		// Fine where the edges of tiles cost most.
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
		// As engines run them, with the gate and the up projection in one and each by itself.
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
