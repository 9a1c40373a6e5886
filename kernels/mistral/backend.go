package mistral

import (
	"fmt"

	"github.com/gemmaudit/gemmaudit/kernels"
)

// Backend is a device with a decoder's operations other than matrix products. Each method returns a launch
// bound to its operands, or an error that names the invalid one.
type Backend interface {
	kernels.Device
	Embed(kernels.Embedding) (kernels.Launch, error)
	Normalize(kernels.Normalization) (kernels.Launch, error)
	Rotate(kernels.Rotation) (kernels.Launch, error)
	Attend(kernels.Attention) (kernels.Launch, error)
	Activate(kernels.GatedUnit) (kernels.Launch, error)
	Choose(kernels.TokenChoice) (kernels.Launch, error)
}

// fuser is a backend with one-row products fused with their neighbors. Both methods return a
// [*kernels.Unsupported] for unsupported sizes.
type fuser interface {
	Fuse(kernels.FusedProduct) (kernels.Launch, error)
	RotateAttend(kernels.Rotation, kernels.Attention) (kernels.Launch, error)
}

// chainFuser is a backend with launches of several fused products, each of which may read what those before it write. FuseChain
// returns a [*kernels.Unsupported] where Fuse must have each.
type chainFuser interface {
	fuser
	FuseChain([]kernels.FusedProduct) (kernels.Launch, error)
}

// expertFuser is a backend that also chooses a token's experts. FuseExperts returns the choice, the units and the outputs, or
// a [*kernels.Unsupported].
type expertFuser interface {
	fuser
	FuseExperts(kernels.FusedExperts) ([]kernels.Launch, error)
}

// rowMover is a backend that brings rows of the same expert together, and adds up the experts' outputs.
type rowMover interface {
	CopyRows(kernels.ExpertRows) (kernels.Launch, error)
	SumRows(kernels.ExpertSums) (kernels.Launch, error)
}

type grapher interface {
	Graph(launches []kernels.Launch) (kernels.Launch, error)
}

func backendOf(d kernels.Device) (Backend, error) {
	b, ok := d.(Backend)
	if !ok {
		return nil, fmt.Errorf("%s (%s) has no attention and normalization of its own: expected a CPU or a CUDA device", d.Spec().ID,
			d.Spec().Name)
	}
	return b, nil
}
