//go:build cuda

package cuda

import (
	"fmt"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/cublas"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/driver"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/gemm"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/planning"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/support"
)

// fusedKernels lists kernels of fused products: ours, a library's with its own epilogues, and for auto and the libraries the
// product with the epilogue as a pass over C, which shows what fusing gains. auto fuses where one of our kernels can.
func (d *Device) fusedKernels() []kernels.Kernel {
	own, _ := gemm.Families{Plain: fusedFamilies}.Present(d.Arch())
	var out, separates []kernels.Kernel
	for _, g := range d.gemms {
		apart := separate{d, g, kernels.VariantName(g.Name(), "separate")}
		switch name := g.Name(); {
		case name == "auto" && len(own.Plain) > 0:
			out = append(out, fusedOr(gemm.NewFusedKernel(d.Device, name, own.Plain), apart))
			for _, f := range own.Plain {
				out = append(out, gemm.NewFusedChooser(d.Device, f))
			}
			separates = append(separates, apart)
		case name == "auto":
			out = append(out, separate{d, g, name})
			separates = append(separates, apart)
		case d.lanes[name] != nil: // a library's
			if k := cublas.Fused(g); k != nil {
				out = append(out, k)
			}
			separates = append(separates, apart)
		}
	}
	return append(out, separates...)
}

// separate computes a fused product with a kernel of products, and the epilogue as a pass over C in the same launch.
type separate struct {
	dev  *Device
	of   kernels.Kernel
	name string
}

var _ kernels.Packer = separate{}

// Name implements [kernels.Kernel].
func (k separate) Name() string { return k.name }

// Describe implements [kernels.Kernel].
func (k separate) Describe() string {
	return "the product, then the epilogue as a pass over C: " + k.of.Describe()
}

// task returns the normalized fused product and the product.
func (k separate) task(t kernels.Task) (fused, product kernels.Task, err error) {
	fused, product, err = t.Fused(k.name)
	if err == nil {
		err = k.of.Supports(product)
	}
	if err == nil && fused.DType == kernels.BF16 {
		if why := planning.TypeReason(k.dev.Arch(), fused.DType); why != "" {
			return t, t, t.Unsupported(k.name, why)
		}
	}
	return fused, product, t.UnsupportedAs(k.name, err)
}

// Supports implements [kernels.Kernel].
func (k separate) Supports(t kernels.Task) error {
	_, _, err := k.task(t)
	return err
}

// Packs implements [kernels.Packer].
func (k separate) Packs(t kernels.Task) bool {
	_, product, err := k.task(t)
	return err == nil && kernels.Packs(k.of, product)
}

// Prepare implements [kernels.Kernel].
func (k separate) Prepare(t kernels.Task, raw kernels.Buffer) (kernels.Weights, error) {
	t, product, err := k.task(t)
	if err != nil {
		return nil, err
	}
	of, err := k.of.Prepare(product, raw)
	if err != nil {
		return nil, err
	}
	w, err := k.dev.KeepFused(t, raw, of)
	if err != nil {
		return nil, err
	}
	return w, nil
}

// Bind implements [kernels.Kernel].
func (k separate) Bind(t kernels.Task, a kernels.Operand, w kernels.Weights, c kernels.Operand,
	_ ...kernels.Operand) (kernels.Launch, error) {
	t, product, err := k.task(t)
	if err != nil {
		return nil, err
	}
	of, bias, err := k.dev.BindFused(k.name, t, w)
	if err != nil {
		return nil, err
	}
	between := c
	if t.Epilogue.IsGated() {
		if between.Buffer, err = k.dev.between(int64(t.M) * int64(t.N) * int64(t.OutputType().Size())); err != nil {
			return nil, fmt.Errorf("%v: memory for the product: %w", t, err)
		}
		between.Offset = 0
	}
	first, err := k.of.Bind(product, a, of, between)
	if err != nil {
		return nil, err
	}
	pass, err := k.pass(t, between, a, c, bias)
	if err != nil {
		return nil, fmt.Errorf("%v: %w", t, err)
	}
	l, err := k.dev.Join([]kernels.Launch{first, pass})
	if err != nil {
		return nil, fmt.Errorf("%v: %w", t, err)
	}
	return l, nil
}

// pass makes the launch of the epilogue.
func (k separate) pass(t kernels.Task, product, a, c kernels.Operand, bias uint64) (*driver.Launch, error) {
	from, err := k.dev.Matrix("product", product, t.M, t.N, t.N, t.OutputType())
	if err != nil {
		return nil, err
	}
	to, err := k.dev.Matrix("C", c, t.M, t.OutputColumns(), t.OutputColumns(), t.OutputType())
	if err != nil {
		return nil, err
	}
	var residual uint64
	if t.Epilogue.HasResidual() {
		if residual, err = k.dev.Matrix("residual", t.ResidualOperand(a), t.M, t.N, t.N, t.OutputType()); err != nil {
			return nil, err
		}
	}
	call := support.EpilogueCall(k.dev.Arch(), t, from, residual, to, bias)
	problem := fmt.Sprintf("epilogue of %v at %d, %d and %d", t, from%16, residual%16, to%16)
	return k.dev.NewLaunch(t.Epilogue.String(), problem, driver.Steps([]planning.Call{call}), product.Buffer, a.Buffer, c.Buffer)
}

// between returns memory for products that a further pass reads. Launches share it, since they run one after the other; it is
// kept until the device is closed.
func (d *Device) between(bytes int64) (kernels.Buffer, error) {
	if d.products == nil || d.products.Bytes() < bytes {
		b, err := d.Alloc(bytes)
		if err != nil {
			return nil, err
		}
		d.OnClose(b.Close)
		d.products = b
	}
	return d.products, nil
}

// Choice implements [kernels.Kernel]: that of the product.
func (k separate) Choice(t kernels.Task) (kernels.Choice, error) {
	_, product, err := k.task(t)
	if err != nil {
		return kernels.Choice{}, err
	}
	return k.of.Choice(product)
}

// What a pass takes on an H200: the time until it begins, and the part of the bandwidth at which it reads and writes.
const (
	passStart = 2.2e-6
	passRate  = 0.68
)

// fusedOr fuses where one of our kernels can and the expected time is less; otherwise the epilogue is apart.
func fusedOr(fuses *gemm.FusedKernel, apart separate) kernels.Kernel {
	return either{fuses.Name(), fuses.Describe() + "; where none does, " + apart.Describe(), func(t kernels.Task) kernels.Kernel {
		if fuses.Supports(t) != nil || apart.faster(t, fuses) {
			return apart
		}
		return fuses
	}}
}

// faster reports whether the product and then a pass are expected to take less than a fused kernel that supports the task.
func (k separate) faster(t kernels.Task, fuses *gemm.FusedKernel) bool {
	alone, ok := k.of.(*gemm.Kernel)
	if !ok || k.dev.Arch().Bandwidth == 0 {
		return false
	}
	fused, product, ok := fuses.Expected(t, alone)
	elements := float64(t.M) * float64(t.N+t.OutputColumns())
	if t.Epilogue.HasResidual() {
		elements += float64(t.M) * float64(t.N)
	}
	pass := passStart + elements*float64(t.OutputType().Size())/(passRate*k.dev.Arch().Bandwidth)
	return ok && product+pass < fused
}
