package main

import (
	"fmt"
	"slices"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/sweep"
)

// fuse parses --epilogue into o. With it, products are fused ones.
func (f *planFlags) fuse(o *sweep.Options) error {
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
