package producer

import (
	"io"
	"strings"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/results/tunableop"
)

// readTunableOp reads both kinds of TunableOp files. Recorded, untuned products have no time.
func readTunableOp(in io.Reader, take taker) error {
	return eachLine(in, func(line int, text string) error {
		if text = strings.TrimSpace(text); text == "" || strings.HasPrefix(text, "Validator,") {
			return nil
		}
		e, err := tunableop.ReadEntry(text)
		if err != nil {
			return take(Row{Line: line, Out: "it is no line of TunableOp's"})
		}
		if e.Other != "" {
			return take(Row{Line: line, Out: e.Other})
		}
		r := Row{Line: line, Kernel: "pytorch-tunableop", Label: e.Solution, LayoutKnown: true, M: e.M, US: e.Milliseconds * 1e3}
		r.Subject = kernels.Product(kernels.DType(e.Product.DType), e.Product.N, e.Product.K)
		if e.Product.Layout == kernels.Transposed.String() {
			r.Subject.Layout = kernels.Transposed
		}
		if e.Bias {
			r.Kernel += "+bias"
		}
		return take(r)
	})
}
