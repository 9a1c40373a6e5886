package kernels

import (
	"fmt"
	"slices"
	"strings"
)

// Layout is the storage order of the weights. The zero value is RowMajor, also the default of files.
type Layout uint8

// The two layouts of B.
const (
	// RowMajor is B[K,N] with contiguous N, as in torch.mm(A, B): "kn".
	RowMajor Layout = iota
	// Transposed is B[N,K] with contiguous K, as linear layers store Weights: "nk".
	Transposed
)

var layoutNames = []string{RowMajor: "kn", Transposed: "nk"}

// ParseLayout reads a layout by its name.
func ParseLayout(s string) (Layout, error) {
	if i := slices.Index(layoutNames, strings.ToLower(strings.TrimSpace(s))); i >= 0 {
		return Layout(i), nil
	}
	return 0, fmt.Errorf("unknown layout %q: expected %s", s, strings.Join(layoutNames, " or "))
}

// String returns the layout's Name: "kn".
func (l Layout) String() string {
	if int(l) < len(layoutNames) {
		return layoutNames[l]
	}
	return fmt.Sprintf("layout %d", uint8(l))
}

// MarshalText writes the name.
func (l Layout) MarshalText() ([]byte, error) {
	if int(l) >= len(layoutNames) {
		return nil, fmt.Errorf("%v is unknown", l)
	}
	return []byte(l.String()), nil
}

// UnmarshalText reads a name.
func (l *Layout) UnmarshalText(text []byte) (err error) {
	*l, err = ParseLayout(string(text))
	return err
}
