package kernels

import "slices"

// KnownFault is a known fault of a library: it computes products of one type wrong, in the version and with the
// instruction set that run here.
type KnownFault struct {
	Kernel string `json:"kernel"` // one of the device's kernels, by name
	DType  DType  `json:"dtype"`
	// Checks are the steps of the correctness check that fail, each in some problem of the standing tables.
	Checks []CheckStep `json:"checks"`
	// Ordinary says that products of ordinary operands are wrong. Otherwise only those are that Text describes.
	Ordinary bool   `json:"ordinary"`
	Text     string `json:"text"` // what is wrong and where, as part of a sentence
}

// KnownFault returns the known fault by which a check of a kernel and type fails. ok is false where that failure is not known.
func (s Spec) KnownFault(kernel string, d DType, failed CheckStep) (f KnownFault, ok bool) {
	return s.faultWhere(kernel, d, func(f KnownFault) bool { return slices.Contains(f.Checks, failed) })
}

// WrongResults returns the known fault that makes ordinary products of a kernel and type wrong. ok is false where none
// is known. A choice of a library, as "cublaslt:2", has the library's faults.
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
