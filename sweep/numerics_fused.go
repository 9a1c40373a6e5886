package sweep

import (
	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/results"
)

// multiplied returns the columns of B that columns of C are computed from: a gated product's are those of the gates, then those
// that they multiply.
func multiplied(c results.Case, columns []int) []int {
	out := columns
	if c.Epilogue.IsGated() {
		for _, j := range columns {
			out = append(out[:len(out):len(out)], c.OutputColumns()+j)
		}
	}
	return out
}

// finisher returns a function that applies an epilogue to the sums of a row, by column of [multiplied]; nil for a plain
// product. Fused products have plain weights, so a column has one sum.
func (k *resultLook) finisher(c results.Case) (func(row int, sums [][]exactSum) ([][]exactSum, error), error) {
	if c.Epilogue == 0 {
		return nil, nil
	}
	bias, err := c.Biases(k.sets[matrixOf(c)].raw[k.copy], multiplied(c, k.columns))
	if err != nil {
		return nil, err
	}
	return func(row int, sums [][]exactSum) ([][]exactSum, error) {
		residual, err := k.residual(c, row)
		if err != nil {
			return nil, err
		}
		out := make([][]exactSum, len(k.columns))
		for j, column := range k.columns {
			x := kernels.FusedElement{Sum: sums[j][0].value, Bound: sums[j][0].bound, Bias: bias[j]}
			if residual != nil {
				x.Other = residual[column]
			}
			if up := j + len(k.columns); c.Epilogue.IsGated() {
				x.Other, x.OtherBound, x.OtherBias = sums[up][0].value, sums[up][0].bound, bias[up]
			}
			value, bound := c.Finish(x)
			out[j] = []exactSum{{value: value, bound: bound}}
		}
		return out, nil
	}, nil
}

// residual reads a row of what a case adds; nil for nothing. The rows of all parts lie together: see [rig.bind].
func (k *resultLook) residual(c results.Case, row int) ([]float64, error) {
	n := int(c.ResidualElements(1))
	if n == 0 {
		return nil, nil
	}
	operands := k.activations[c.DType]
	line, out := make([]byte, n*c.DType.Size()), make([]float64, n)
	place := operands.aBytes + int64(k.copy%k.slots(c))*besideBytes(c)
	if err := operands.a.Download(place+int64(row)*int64(len(line)), line); err != nil {
		return nil, err
	}
	return out, kernels.Decode(c.DType, line, out)
}
