package kernels

import (
	"fmt"
	"strings"
)

// Algorithm identifies an algorithm of a library. The fields are cuBLASLt's configuration attributes
// (cublasLtMatmulAlgoConfigAttributes_t); tile, stages and cluster are values of its enumerations. The zero
// value means no algorithm.
type Algorithm struct {
	ID        int `json:"id"`
	Tile      int `json:"tile"`
	Stages    int `json:"stages"`
	SplitK    int `json:"split_k"`
	Reduction int `json:"reduction"`
	Swizzle   int `json:"swizzle"`
	Custom    int `json:"custom"`
	Inner     int `json:"inner"`
	Cluster   int `json:"cluster"`
}

const algorithmFormat = "id%d_tile%d_stages%d_splitk%d_red%d_swizzle%d_custom%d_inner%d_cluster%d"

// String returns the attributes as kernel names spell them.
func (a Algorithm) String() string {
	return fmt.Sprintf(algorithmFormat, a.ID, a.Tile, a.Stages, a.SplitK, a.Reduction, a.Swizzle, a.Custom, a.Inner, a.Cluster)
}

// AlgorithmName returns the name of the kernel that runs one algorithm for every product:
// "cublaslt:id66_tile20_stages35_splitk1_red0_swizzle1_custom0_inner0_cluster3".
func AlgorithmName(kernel string, a Algorithm) string { return kernel + ":" + a.String() }

// SplitAlgorithm parses a name made by AlgorithmName. For other names ok is false and kernel is the whole
// name.
func SplitAlgorithm(name string) (kernel string, a Algorithm, ok bool) {
	kernel, words, found := strings.Cut(name, ":")
	if !found || kernel == "" {
		return name, Algorithm{}, false
	}
	_, err := fmt.Sscanf(words, algorithmFormat, &a.ID, &a.Tile, &a.Stages, &a.SplitK, &a.Reduction, &a.Swizzle, &a.Custom, &a.Inner,
		&a.Cluster)
	if err != nil || a.Validate() != nil || a.String() != words {
		return name, Algorithm{}, false
	}
	return kernel, a, true
}

const mostAttribute = 1<<16 - 1

// Validate returns an error if a is zero or an attribute is out of range.
func (a Algorithm) Validate() error {
	if a == (Algorithm{}) {
		return fmt.Errorf("algorithm without attributes")
	}
	for _, f := range []struct {
		name  string
		value int
	}{
		{"id", a.ID}, {"tile", a.Tile}, {"stages", a.Stages}, {"split_k", a.SplitK}, {"reduction", a.Reduction},
		{"swizzle", a.Swizzle}, {"custom", a.Custom}, {"inner", a.Inner}, {"cluster", a.Cluster},
	} {
		if f.value < 0 || f.value > mostAttribute {
			return fmt.Errorf("algorithm: %s is %d, expected 0 to %d", f.name, f.value, mostAttribute)
		}
	}
	return nil
}
