package simulated

import (
	"slices"

	"github.com/gemmaudit/gemmaudit/kernels"
)

// loops returns kernels of grouped products: each takes the time of a kernel of products for every group with rows. A config
// that declares kernels of grouped products has no others.
func (c Config) loops() []KernelConfig {
	if len(c.Kernels[kernels.ExpertProjections.Operation()]) > 0 {
		return nil
	}
	var out []KernelConfig
	for _, k := range c.Gemms {
		if k.Cost == nil {
			continue
		}
		out = append(out, KernelConfig{
			Name: k.Name, DTypes: slices.Clone(k.DTypes), Arithmetic: k.Arithmetic, Process: k.Process,
			BindError: ofParts(k.BindError), ExecuteError: ofParts(k.ExecuteError),
			Cost: sumOfParts(k.Cost), Quantized: sumOfParts(k.Quantized),
		})
	}
	return out
}

// sumOfParts is the cost of each group's product; nil stays nil.
func sumOfParts(cost Cost) Cost {
	if cost == nil {
		return nil
	}
	return func(t kernels.Task) float64 {
		parts, err := t.GroupedParts()
		if err != nil { // the task is normalized
			return cost(t)
		}
		sum := 0.0
		for _, p := range parts {
			sum += cost(p.Task)
		}
		return sum
	}
}

// ofParts asks for an error of each group's product; nil stays nil.
func ofParts(fails func(kernels.Task) error) func(kernels.Task) error {
	if fails == nil {
		return nil
	}
	return func(t kernels.Task) error {
		parts, err := t.GroupedParts()
		for _, p := range parts {
			if err == nil {
				err = fails(p.Task)
			}
		}
		return err
	}
}
