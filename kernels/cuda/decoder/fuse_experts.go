//go:build cuda

package decoder

import (
	"encoding/binary"
	"fmt"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/driver"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/planning"
)

// FuseExperts binds the experts of one row as three launches: the choice, the units and the outputs. They must run in this
// order, each directly after the other, and may be part of a graph: the choice does not leave the device. Errors name the
// invalid operand. Sizes or weights without fused kernels on this GPU give a [*kernels.Unsupported].
func (d Operations) FuseExperts(o kernels.FusedExperts) ([]kernels.Launch, error) {
	ls, err := d.fuseExperts(o, expertRole.plan)
	if err != nil {
		return nil, fmt.Errorf("fuse %d experts of hidden %d inner %d %s: %w", len(o.Units), o.Hidden, o.Inner, o.DType, err)
	}
	return ls, nil
}

type expertPlan func(e expertRole, a planning.Arch, p kernels.FusedProduct, f kernels.WeightFormat, at fusedAddresses,
	chosen uint64) (planning.Call, string)

func (d Operations) fuseExperts(o kernels.FusedExperts, plan expertPlan) ([]kernels.Launch, error) {
	table, formats, ldbs, err := d.expertTable(o)
	if err == nil {
		err = checkExperts(d.Arch(), o, formats)
	}
	if err != nil {
		return nil, err
	}
	router, err := kernels.Task{Subject: kernels.Linear(o.DType, len(o.Units), o.Hidden), M: 1}.Normalized()
	if err != nil {
		return nil, err
	}
	weights, _, err := d.BindPacked("the router", router, o.Router)
	if err != nil {
		return nil, fmt.Errorf("router: %w", err)
	}
	at := expertAddresses{router: weights.Address, ldb: weights.LDB}
	var inputs uint64
	size := kernels.ExpertChoiceBytes(len(o.Units), o.TopK)
	if err := d.placeOperands(placedOperand{"X", o.X, 1, o.Hidden, kernels.FP32, &at.x, false},
		placedOperand{"Weight", o.Weight, 1, o.Hidden, o.DType, &at.weight, false},
		placedOperand{"Inputs", o.Inputs, o.TopK, o.Inner, o.DType, &inputs, false},
		placedOperand{"Choice", o.Choice, 1, int(size), kernels.INT8, &at.choice, false}); err != nil {
		return nil, err
	}
	if reason := choiceReason(o, at); reason != "" {
		return nil, notFused{&kernels.Unsupported{Kernel: "fuse experts", DType: o.DType, Reason: reason}}
	}
	if at.choice%8 != 0 {
		return nil, fmt.Errorf("operand Choice: at %#x, expected a multiple of 8", at.choice)
	}
	if err := o.Choice.Buffer.Upload(int64(o.Choice.Offset), table); err != nil {
		return nil, err
	}
	units, outputs := expertProducts(o)
	keep := []any{o.X.Buffer, o.Weight.Buffer, o.Router, o.Inputs.Buffer, o.Choice.Buffer, o.Units, o.Outputs}
	calls := []planning.Call{expertChoiceCall(d.Arch(), o, at)}
	labels := []string{"choice"}
	add := func(e expertRole, p kernels.FusedProduct, i int, to fusedAddresses) {
		to.x, to.ldb = at.x, ldbs[i]
		c, label := plan(e, d.Arch(), p, formats[i], to, at.chosen(len(o.Units)))
		calls, labels = append(calls, c), append(labels, label)
	}
	add(unitRole(o.TopK), units, 0, fusedAddresses{weight: at.weight, c: inputs})
	add(outputRole(o.TopK), outputs, 1, fusedAddresses{a: inputs, pitch: o.Inner * o.DType.Size()})
	out := make([]kernels.Launch, len(calls))
	for i, c := range calls {
		key := fmt.Sprintf("experts h%d i%d %s, %s of %d, %s", o.Hidden, o.Inner, o.DType, c.Kernel, o.TopK, labels[i])
		l, err := d.NewLaunch(labels[i], key, driver.Steps([]planning.Call{c}), keep...)
		if err != nil {
			return nil, err
		}
		l.Primed = true // a warm-up run of the outputs would add twice
		out[i] = l
	}
	return out, nil
}

// expertTable returns the addresses of all experts' weights as the choice reads them, the formats of units and outputs, and
// the distances of their rows.
func (d Operations) expertTable(o kernels.FusedExperts) (table []byte, formats [2]kernels.WeightFormat, ldbs [2]int, err error) {
	if err := checkPairs(o); err != nil {
		return nil, formats, ldbs, err
	}
	units, outputs := expertProducts(o)
	for i := range o.Units {
		for j, p := range []kernels.FusedProduct{units, outputs} {
			p.Weights = [][]kernels.Weights{o.Units, o.Outputs}[j][i]
			address, ldb, format, err := d.weightsOf(p)
			if err != nil {
				return nil, formats, ldbs, fmt.Errorf("%s of expert %d: %w", []string{"units", "outputs"}[j], i, err)
			}
			if i > 0 && format != formats[j] {
				return nil, formats, ldbs, notFused{&kernels.Unsupported{Kernel: "fuse experts", DType: o.DType,
					Reason: fmt.Sprintf("weights of expert %d are %v, those before %v", i, format, formats[j])}}
			}
			formats[j], ldbs[j] = format, ldb
			table = binary.LittleEndian.AppendUint64(table, address)
		}
	}
	return table, formats, ldbs, nil
}

// weightsOf returns where a fused product's weights are, their row's length, and their format, zero for plain ones.
func (d Operations) weightsOf(p kernels.FusedProduct) (address uint64, ldb int, format kernels.WeightFormat, err error) {
	product, err := kernels.Task{Subject: kernels.Linear(p.DType, p.N, p.K), M: 1}.Normalized()
	if err != nil {
		return 0, 0, format, err
	}
	integers, held, err := d.Records(p.Weights)
	if err != nil {
		return 0, 0, format, err
	}
	if held {
		if integers.Problem.N != p.N || integers.Problem.K != p.K {
			return 0, 0, format, fmt.Errorf("weights were packed for %v", integers.Problem)
		}
		return integers.Address, quantizedLDB(p), integers.Problem.Weights, nil
	}
	weights, _, err := d.BindPacked("fuse", product, p.Weights)
	if err != nil {
		return 0, 0, format, err
	}
	return weights.Address, weights.LDB, format, nil
}

// CopyRows binds a copy of rows.
func (d Operations) CopyRows(o kernels.ExpertRows) (kernels.Launch, error) {
	var at transformerAddresses
	return d.operation("copy of rows", o.DType, fmt.Sprint(o.Count, o.Columns),
		func() ([]planning.Call, error) { return one(expertRowsCall(d.Arch(), o, at)) },
		placedOperand{"From", o.From, o.FromRows, o.Columns, o.DType, &at.x, false},
		placedOperand{"To", o.To, o.Count, o.Columns, o.DType, &at.out, false},
		placedOperand{"Rows", o.Rows, 1, o.Count, kernels.INT32, &at.tokens, false})
}

// SumRows binds weighted sums of rows.
func (d Operations) SumRows(o kernels.ExpertSums) (kernels.Launch, error) {
	var at transformerAddresses
	return d.operation("sum of rows", o.DType, fmt.Sprint(o.Count, o.Columns, o.TopK),
		func() ([]planning.Call, error) { return one(expertSumsCall(d.Arch(), o, at)) },
		placedOperand{"From", o.From, o.Count * o.TopK, o.Columns, o.DType, &at.x, false},
		placedOperand{"To", o.To, o.Count, o.Columns, o.DType, &at.out, false},
		placedOperand{"Rows", o.Rows, 1, o.Count * o.TopK, kernels.INT32, &at.tokens, false},
		placedOperand{"Shares", o.Shares, 1, o.Count * o.TopK, kernels.FP32, &at.weight, false})
}
