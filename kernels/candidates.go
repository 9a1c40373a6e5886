package kernels

import (
	"strconv"
	"strings"
)

// MaxCandidates is the largest n of [Candidates].
const MaxCandidates = 99

// CandidateName returns the name of the nth choice after a kernel's first: "cublaslt:2".
func CandidateName(kernel string, n int) string { return kernel + ":" + strconv.Itoa(n) }

// SplitCandidate parses a candidate's name: "cublaslt:2" is "cublaslt" and 2. Other names are returned whole,
// with 0.
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
