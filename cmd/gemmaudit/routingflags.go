package main

import (
	"errors"
	"fmt"

	"github.com/gemmaudit/gemmaudit/results/importing"
	"github.com/gemmaudit/gemmaudit/sweep"
)

// route parses the flags of experts into o.
func (f *planFlags) route(o *sweep.Options) error {
	switch {
	case o.TopK < 0:
		return badFlag("top-k", fmt.Errorf("%d, expected at least 1", o.TopK))
	case f.ep < 0 || f.ep > sweep.MaxTP:
		return badFlag("ep", fmt.Errorf("%d ranks, expected 1 to %d", f.ep, sweep.MaxTP))
	case f.ep > 1 && len(f.models) == 0:
		return badFlag("ep", fmt.Errorf("%d ranks need --model", f.ep))
	case f.tokens != "" && f.batches != "":
		return badFlag("tokens", errors.New("can't be combined with --batch"))
	}
	for _, text := range f.routings {
		r, named, err := sweep.ParseRouting(text)
		if err == nil && !named {
			r.Recorded, err = importing.ReadRouting(text)
			if err == nil {
				r.Hash, err = r.Recorded.Register()
			}
		}
		if err != nil {
			return badFlag("routing", err)
		}
		o.Routings = append(o.Routings, r)
	}
	return nil
}
