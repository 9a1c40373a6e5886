package results

import (
	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/results/field"
)

// SeriesFields are the properties of a series, shared by its rows.
var SeriesFields = field.Of([]field.Field[SeriesKey]{
	{Name: "device", Head: "device", Where: "device", Hoist: true, Words: "the device, as cpu or cuda:0",
		Value: func(k SeriesKey) any { return k.Device }},
	{Name: "kernel", Head: "kernel", Where: "kernel", Hoist: true, Words: "the kernel, as cublas or tiled",
		Value: func(k SeriesKey) any { return k.Kernel }},
	{Name: "operation", Head: "operation", Where: "operation", Hoist: true, Words: "operation, as gemm or softmax",
		Value: func(k SeriesKey) any { return operationWord(k.Operation) }},
	{Name: "dtype", Head: "dtype", Where: "dtype", Hoist: true, Words: "the data type of the activations",
		Value: func(k SeriesKey) any { return string(k.DType) }},
	{Name: "weights", Where: "weights", NoColumn: true, JSON: "-", Words: "the format of quantized weights, empty for plain weights",
		Value: func(k SeriesKey) any {
			if k.Weights == (kernels.WeightFormat{}) {
				return nil
			}
			return k.Weights.String()
		}},
	{Name: "layout", Head: "layout", Where: "layout", Hoist: true, Words: "how weights are stored: nk or kn", Value: func(k SeriesKey) any {
		if !k.Operation.HasWeights() {
			return nil
		}
		return k.Layout.String()
	}},
	{Name: "regime", Head: "regime", Where: "regime", Wide: true, Words: "where operands come from: engine, cold, hot",
		Value: func(k SeriesKey) any { return string(k.Regime) }},
	{Name: "threads", Head: "threads", Kind: field.Count, Where: "threads", Wide: true, Words: "threads of a CPU",
		Value: func(k SeriesKey) any { return unlessZero(k.Threads) }},
	{Name: "n", Head: "n", Kind: field.Count, Where: "n", Hoist: true, HoistHead: true, Words: "the N of a product",
		Value: func(k SeriesKey) any { return unlessZero(k.N) }},
	{Name: "k", Head: "k", Kind: field.Count, Where: "k", Hoist: true, HoistHead: true, Words: "the K of a product",
		Value: func(k SeriesKey) any { return unlessZero(k.K) }},
	{Name: "size", Head: "size", Hoist: true, JSON: "-", Words: "the dimensions in words, where N and K are not all of them",
		Value: func(k SeriesKey) any {
			if k.Operation.IsProduct() && k.Products == 0 {
				return nil
			}
			return k.Size()
		}},
})

// unlessZero returns n, or nil for 0.
func unlessZero(n int) any {
	if n == 0 {
		return nil
	}
	return n
}

// operationWord is a series' operation. Tables for people omit it for products.
type operationWord kernels.Operation

func (o operationWord) Text() string {
	if kernels.Operation(o).IsDefault() {
		return ""
	}
	return kernels.Operation(o).String()
}

func (o operationWord) Raw() any { return kernels.Operation(o).String() }
