package kernels

import (
	"errors"
	"slices"
)

// KnownFault is a known fault of a library version and instruction set on this device: wrong products of one
// type.
type KnownFault struct {
	Kernel string `json:"kernel"`
	DType  DType  `json:"dtype"`
	// Checks are the failing steps of the correctness check, each in some standard problem.
	Checks []CheckStep `json:"checks"`
	// Ordinary is true if products of ordinary operands are wrong. Otherwise only those in Text are.
	Ordinary bool   `json:"ordinary"`
	Text     string `json:"text"` // what is wrong and where, as part of a sentence
}

// KnownFault returns the known fault behind a failed check of a kernel and type. ok is false if there is
// none.
func (s Spec) KnownFault(kernel string, d DType, failed CheckStep) (f KnownFault, ok bool) {
	return s.faultWhere(kernel, d, func(f KnownFault) bool { return slices.Contains(f.Checks, failed) })
}

// FaultBehind returns the known fault behind the error of a check of a product, or of a grouped product, which runs the
// kernel's products. ok is false if there is none.
func (s Spec) FaultBehind(err error) (f KnownFault, ok bool) {
	if product := (*CheckError)(nil); errors.As(err, &product) {
		return s.KnownFault(product.Kernel, product.Task.DType, product.Check)
	}
	if grouped := (*ElementError)(nil); errors.As(err, &grouped) && grouped.Task.Operation.HasWeights() {
		return s.KnownFault(grouped.Kernel, grouped.Task.DType, grouped.Check)
	}
	return KnownFault{}, false
}

// WrongResults returns the known fault that makes a kernel's ordinary products of a type wrong. ok is false
// if there is none. A candidate such as "cublaslt:2" has its library's faults.
func (s Spec) WrongResults(kernel string, d DType) (f KnownFault, ok bool) {
	base, _ := SplitCandidate(kernel)
	return s.faultWhere(base, d, func(f KnownFault) bool { return f.Ordinary })
}

func (s Spec) faultWhere(kernel string, d DType, is func(KnownFault) bool) (KnownFault, bool) {
	i := slices.IndexFunc(s.Faults, func(f KnownFault) bool { return f.Kernel == kernel && f.DType == d && is(f) })
	if i < 0 {
		return KnownFault{}, false
	}
	return s.Faults[i], true
}
