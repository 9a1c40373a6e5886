package hopper

import (
	"fmt"
	"slices"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/gemm"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/planning"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/support"
)

// wideTiles returns the tiles of hopper.cu for a product, those of hopper_epilogue.cu if it has an epilogue.
func wideTiles(p kernels.Task) []hopperTile {
	if p.Epilogue != 0 {
		return hopperEpilogues
	}
	return hopperTiles(p.DType)
}

// hopperEpilogues are fewer than the tiles without epilogues: those that shorten plans most. By their expected times, plans
// from them take 0.3 % longer on average, for products of usual models.
var hopperEpilogues = slices.Concat(lieAlong(true, hopperTilesEpilogue), hopperTilesEpilogueCoarse,
	inTurns(lieAlong(true, hopperTilesEpilogueTurns)))

// epilogueWord is part of the symbols of kernels with epilogues.
func epilogueWord(p kernels.Task) string {
	if p.Epilogue != 0 {
		return "epilogue_"
	}
	return ""
}

// addEpilogue appends the epilogue, if any, to a launch's parameters.
func addEpilogue(k *planning.Call, p kernels.Task, at gemm.Addresses) {
	if p.Epilogue == 0 {
		return
	}
	support.AppendEpilogue(&k.Args, p.Epilogue, at.Bias, at.Residual, p.N*p.DType.Size())
	if p.Epilogue.IsGated() {
		k.Args.Int32(p.N / 2)
	} else {
		k.Args.Int32(0)
	}
	k.Args.Align(64)
}

// gatesReason returns why hopper_narrow_epilogue.cu can't compute a gated product, or "".
func gatesReason(a planning.Arch, p kernels.Task) string {
	switch {
	case p.N%(2*planning.HalvesRows) != 0:
		return fmt.Sprintf("n is %d, and gates and what they multiply lie in eights", p.N)
	case len(smallMChoices(a, p)) == 0:
		return "its tiles for many rows have no gates"
	}
	return ""
}

// What epilogues take, as measured on an H200 with bf16.
const (
	epilogueStart    = 0.6e-6 // seconds until the bias is there
	activationCycles = 0.09   // of an element of a tile, where no other consumer multiplies meanwhile
	wideResidual     = 1.2e12 // bytes of the residual per second that large tiles read, and
	narrowResidual   = 3e12   // small ones
)

// epilogueSeconds returns the expected time of the epilogue, 0 without one.
func (c hopperChoice) epilogueSeconds(a planning.Arch, p kernels.Task) float64 {
	if p.Epilogue == 0 {
		return 0
	}
	t, rounds := epilogueStart, c.rounds()
	if c.turns {
		rounds = 1
	}
	if step := p.Epilogue.Step(); step != 0 && step != kernels.Residual {
		clock := a.LoadClock(wideModels.For(a.CC, a.SMs, a.Bandwidth).Clock)
		t += activationCycles * float64(c.rows*c.cols*rounds) / clock
	}
	return t + residualBytes(p)/wideResidual
}

func (smallMChoice) epilogueSeconds(p kernels.Task) float64 {
	if p.Epilogue == 0 {
		return 0
	}
	return epilogueStart + residualBytes(p)/narrowResidual
}

func residualBytes(p kernels.Task) float64 {
	if !p.Epilogue.HasResidual() {
		return 0
	}
	return float64(p.M) * float64(p.N) * float64(p.OutputType().Size())
}
