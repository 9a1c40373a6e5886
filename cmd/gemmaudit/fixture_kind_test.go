package main

import (
	"testing"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/kernels/simulated"
)

//docs:begin kind

// gopher is a kind of cards.
var gopher = kernels.KindFacts{
	Kind: "gopher", Name: "gopher card", Unit: "paw", Card: true,
	Known: []string{"burrow"}, // in device names of imported runs
}

//docs:end

// A made-up kind of device goes through the commands. Its devices are simulated.
func TestFixtureKind(t *testing.T) {
	t.Cleanup(kernels.DefineKind(gopher))
	t.Chdir(t.TempDir())
	d := simulated.New(simulated.Config{ID: "gopher:0", Kind: gopher.Kind, Gemms: []simulated.KernelConfig{
		{Name: "dig", Cost: simulated.Slow(simulated.Linear(200e9, 2e-6), 96, 128, 1.5), DTypes: []kernels.DType{kernels.BF16}},
	}})
	runSteps(t, d, []step{
		{"devices", 0, []string{`gopher:0`, `paws +1`}},
		{"sweep --device gopher:all --out run.db --shape n1024k1024 --batch 16:256:8 --rounds 9", 0, []string{`gopher:0/dig`}},
		{"audit run.db --confirm -o wide", 1, []string{`confirmed +monotonic +gopher:0/dig/bf16 n1024 k1024 nk +96-128`}},
		{"sweep --device cuda:0 --out no.db", 2, []string{`gopher:0`}},
	})
	if kind := kernels.KindOf("Burrow 9000"); kind != gopher.Kind {
		t.Errorf("Burrow 9000 is of kind %q", kind)
	}
}
