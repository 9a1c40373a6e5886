package main

import (
	"strings"
	"testing"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/kernels/simulated"
)

type withConstants struct {
	*simulated.Device
	by kernels.Constants
}

func (p withConstants) Constants() kernels.Constants { return p.by }

// A card without constants of its own is mentioned once; a card with them is not.
func TestTellConstants(t *testing.T) {
	var stderr strings.Builder
	a := &app{stderr: &stderr}
	d := simulated.New(simulated.Config{ID: "cuda:0", Kind: kernels.CUDA})
	for range 2 {
		a.tellConstants([]kernels.Device{withConstants{d, kernels.Constants{Card: "NVIDIA H200", ID: "c0ffee"}}})
	}
	a.toldConstants = nil
	a.tellConstants([]kernels.Device{d, withConstants{d, kernels.Constants{Card: "NVIDIA H200", Own: true, ID: "c0ffee"}}})
	if want := "cuda:0: planned by the constants of NVIDIA H200, the nearest card that was seen (c0ffee)\n"; stderr.String() != want {
		t.Errorf("got %q, want %q", stderr.String(), want)
	}
}
