package results

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/gemmaudit/gemmaudit/kernels"
)

// Recorded is a recorded workload's distinct products, each at its M with its calls per pass: at most
// [MostRecorded], in the order of [Recorded.Sort].
type Recorded []RecordedProduct

// MostRecorded is the largest number of recorded products in a plan: far more than a model computes, and
// quick to plan.
const MostRecorded = 1 << 14

// RecordedProduct is a recorded product.
type RecordedProduct struct {
	RecordedKey
	// Calls is how often it is computed.
	Calls float64 `json:"calls"`
	// ExpectedUS is the planned time of one call in microseconds, predicted before measurement.
	ExpectedUS float64 `json:"expected_us,omitempty"`
	// NoKernel means that no planned kernel supports it.
	NoKernel bool `json:"no_kernel,omitempty"`
}

// RecordedKey identifies a product of a recorded workload.
type RecordedKey struct {
	// DType is empty if the file has no type; the product then stands for every measured type.
	DType kernels.DType `json:"dtype,omitempty"`
	N     int           `json:"n"`
	K     int           `json:"k"`
	// Products is the number per launch, 0 for one.
	Products int `json:"products,omitempty"`
	M        int `json:"m"`
}

func keyOf(s kernels.Subject, m int) RecordedKey {
	return RecordedKey{DType: s.DType, N: s.N, K: s.K, Products: s.Products, M: m}
}

// Is reports whether a series measures the product.
func (k RecordedKey) Is(s kernels.Subject) bool {
	of := keyOf(s, k.M)
	if k.DType == "" {
		of.DType = ""
	}
	return s.Operation.IsProduct() && k == of
}

func (k RecordedKey) compare(o RecordedKey) int {
	return cmp.Or(cmp.Compare(k.DType, o.DType), cmp.Compare(k.N, o.N), cmp.Compare(k.K, o.K), cmp.Compare(k.Products, o.Products),
		cmp.Compare(k.M, o.M))
}

// String returns the form of cases, "m16 n4096 k4096".
func (k RecordedKey) String() string {
	return fmt.Sprintf("m%d %s", k.M, kernels.Subject{Dims: kernels.Dims{N: k.N, K: k.K, Products: k.Products}}.Size())
}

// Traffic returns how often each M of a series is computed, 0 between recorded ones; nil if there are none.
func (r Recorded) Traffic(s kernels.Subject) Traffic {
	return r.traffic(s, func(p RecordedProduct) float64 { return p.Calls })
}

// Worth is [Recorded.Traffic] weighted by the expected microseconds of all calls.
func (r Recorded) Worth(s kernels.Subject) Traffic {
	return r.traffic(s, func(p RecordedProduct) float64 { return p.Calls * p.ExpectedUS })
}

func (r Recorded) traffic(s kernels.Subject, weight func(RecordedProduct) float64) Traffic {
	if !s.Operation.IsProduct() {
		return nil
	}
	weights := map[int]float64{}
	for _, key := range []RecordedKey{keyOf(s, 0), {N: s.N, K: s.K, Products: s.Products}} {
		at, _ := slices.BinarySearchFunc(r, key, func(p RecordedProduct, k RecordedKey) int { return p.compare(k) })
		for ; at < len(r) && r[at].Is(s); at++ {
			weights[r[at].M] += weight(r[at])
		}
	}
	return TrafficAt(weights)
}

// TrafficAt returns traffic at single Ms, 0 between them; nil if empty.
func TrafficAt(weights map[int]float64) Traffic {
	var out Traffic
	for _, m := range slices.Sorted(maps.Keys(weights)) {
		if last := len(out) - 1; last > 0 && out[last].M == m {
			out = out[:last] // end of the previous one
		}
		out = append(out, Load{M: m, Weight: weights[m]}, Load{M: m + 1})
	}
	return out
}

// Sort sorts the products.
func (r Recorded) Sort() {
	slices.SortFunc(r, func(a, b RecordedProduct) int { return a.compare(b.RecordedKey) })
}

// Validate returns an error, or nil if valid.
func (r Recorded) Validate() error {
	if len(r) > MostRecorded {
		return fmt.Errorf("recorded workload: %d products, expected at most %d", len(r), MostRecorded)
	}
	for i, p := range r {
		subject := kernels.Product(cmp.Or(p.DType, kernels.FP32), p.N, p.K)
		subject.Products = p.Products
		switch {
		case p.M < 1 || p.M > MaxM || subject.Validate() != nil:
			return fmt.Errorf("recorded workload: %v is no product", p.RecordedKey)
		case !(p.Calls > 0 && p.Calls <= MostWeight) || !(p.ExpectedUS >= 0 && p.ExpectedUS <= MostWeight):
			return fmt.Errorf("recorded workload: %v has %g calls of %g us, expected above 0 and at most %g", p.RecordedKey, p.Calls,
				p.ExpectedUS, float64(MostWeight))
		case i > 0 && r[i-1].compare(p.RecordedKey) >= 0:
			return fmt.Errorf("recorded workload: %v follows %v", p.RecordedKey, r[i-1].RecordedKey)
		}
	}
	return nil
}
