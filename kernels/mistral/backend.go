package mistral

import (
	"fmt"

	"github.com/gemmaudit/gemmaudit/kernels"
)

// Backend is a device that has what a decoder needs beside matrix products. Each method
// returns a launch that is bound to its operands, or an error that names what is wrong
// with them.
type Backend interface {
	kernels.Device
	Embed(kernels.Embedding) (kernels.Launch, error)
	Normalize(kernels.Normalization) (kernels.Launch, error)
	Rotate(kernels.Rotation) (kernels.Launch, error)
	Attend(kernels.Attention) (kernels.Launch, error)
	Activate(kernels.GatedUnit) (kernels.Launch, error)
	Choose(kernels.TokenChoice) (kernels.Launch, error)
}

// fuser is a backend that has products of one row fused with their neighbours. Either
// method returns a [*kernels.Unsupported] for sizes that it has no kernel for.
type fuser interface {
	Fuse(kernels.FusedProduct) (kernels.Launch, error)
	RotateAttend(kernels.Rotation, kernels.Attention) (kernels.Launch, error)
}

// grapher is a backend that makes one launch of many.
type grapher interface {
	Graph(launches []kernels.Launch) (kernels.Launch, error)
}

// backendOf returns d as a backend.
func backendOf(d kernels.Device) (Backend, error) {
	b, ok := d.(Backend)
	if !ok {
		return nil, fmt.Errorf("%s (%s) has no attention and normalization of its own: expected a CPU or a CUDA device", d.Spec().ID, d.Spec().Name)
	}
	return b, nil
}
