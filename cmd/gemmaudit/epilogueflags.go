package main

import (
	"errors"
	"fmt"
	"slices"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/sweep"
)

// modelEpilogues stands for the epilogues of a model's layers.
const modelEpilogues = "model"

// fusesLayers reports whether a model's products have the epilogues of its layers.
func (f *planFlags) fusesLayers() bool { return slices.Equal(f.epilogues, []string{modelEpilogues}) }

// fuse parses --epilogue into o. With it, products are fused ones.
func (f *planFlags) fuse(o *sweep.Options) error {
	switch {
	case !f.fusesLayers():
	case len(f.models) == 0:
		return badFlag("epilogue", errors.New("the layers of a model have it: expected --model"))
	case f.changed("op"):
		return badFlag("epilogue", errors.New("the layers of a model have it: expected no --op"))
	default:
		return nil
	}
	for _, text := range f.epilogues {
		e, err := kernels.ParseEpilogue(text)
		if err != nil {
			return badFlag("epilogue", err)
		}
		if !slices.Contains(o.Epilogues, e) {
			o.Epilogues = append(o.Epilogues, e)
		}
	}
	switch {
	case !f.changed("epilogue"):
	case !f.changed("op"):
		for i := range o.Operations {
			o.Operations[i] = o.Operations[i].WithEpilogue()
		}
	case !slices.ContainsFunc(o.Operations, kernels.Operation.HasEpilogue):
		return badFlag("epilogue", fmt.Errorf("%v has no epilogue: expected --op %v", o.Operations[0],
			kernels.Projections.Operation().WithEpilogue()))
	}
	return nil
}
