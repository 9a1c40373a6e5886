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
	DTypes      []kernels.DType
	// MaxKernels bounds the kernels of a data type, ours first; 0 is no bound.
	MaxKernels        int
	Screening, Rounds int
	BlockTarget       time.Duration
	// Budget thins the grid until the estimate of the screening rounds fits; 0
	// leaves it as it is. Deadline is what the user's replaces.
	Budget, Deadline time.Duration
}

// presets in order of cost.
var presets = []Preset{
	{
		Name:        "quick",
		Description: "one projection of Llama 3 8B over small and middle batches, under a minute",
		Models:      []string{"llama3-8b:k_proj"},
		// Every decode batch, then a grid fine enough to see the edges of tiles.
		Batches:   "1:16,20:128:4,136:512:8",
		DTypes:    []kernels.DType{kernels.BF16, kernels.FP32},
		Screening: 6, Rounds: 8,
		BlockTarget: 4 * time.Millisecond,
		Budget:      35 * time.Second, Deadline: 55 * time.Second,
	},
	{
		Name:        "standard",
		Description: "the four products of a Llama 3 8B layer, decode to long prefill",
		Models:      []string{"llama3-8b"},
		Batches:     "1:32,40:256:8,272:1024:16,1088:4096:64",
		DTypes:      []kernels.DType{kernels.BF16, kernels.FP32},
		Screening:   7, Rounds: 15,
		BlockTarget: 5 * time.Millisecond,
	},
	{
		Name:        "overnight",
		Description: "every projection of Llama 3 8B at every fourth batch up to 32768, eight hours",
		Models:      []string{"llama3-8b:all"},
		Batches:     "1:4,4:32768:4",
		DTypes:      []kernels.DType{kernels.BF16, kernels.FP16, kernels.FP8, kernels.INT8, kernels.FP32},
		Screening:   7, Rounds: 30,
		BlockTarget: 5 * time.Millisecond,
		Deadline:    8 * time.Hour,
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
