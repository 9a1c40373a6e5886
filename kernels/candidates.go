package kernels

import (
	"strconv"
	"strings"
)

// Candidates is implemented by kernels that choose among algorithms of their own
// and can be told to run another than their first choice: a library with a
// heuristic. Each choice after the first is a kernel by itself, which is named,
// selected, measured and stored like any other.
type Candidates interface {
	Gemm
	// Candidate returns the kernel that runs the nth choice after the first, n ≥ 1,
	// under the name [CandidateName] gives it. Which algorithm that is depends on
	// the problem. It supports those problems for which there are so many choices.
	Candidate(n int) Gemm
}

// MaxCandidates is the largest n of [Candidates].
const MaxCandidates = 99

// CandidateName is the name of the nth choice after a kernel's first: "cublaslt:2".
func CandidateName(kernel string, n int) string { return kernel + ":" + strconv.Itoa(n) }

// SplitCandidate takes a candidate's name apart: "cublaslt:2" is "cublaslt" and 2.
// Other names come back whole, with 0.
func SplitCandidate(name string) (kernel string, n int) {
	kernel, number, ok := strings.Cut(name, ":")
	if !ok || kernel == "" {
		return name, 0
	}
	n, err := strconv.Atoi(number)
	if err != nil || n < 1 || n > MaxCandidates || strconv.Itoa(n) != number {
		return name, 0
	}
	return kernel, n
}
