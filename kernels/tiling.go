package kernels

import (
	"fmt"
	"math"
)

// Tiling is how a launch divides its work. Unknown fields are zero.
type Tiling struct {
	// Tile is the part of C computed by one block, M by N, and the step along K. A block is a GPU thread
	// block, or on a CPU the register tile.
	Tile [3]int `json:"tile,omitzero"`
	// Waves is the number of blocks divided by those that run at the same time.
	Waves float64 `json:"waves,omitempty"`
	// Split is the number of K parts that are summed afterwards, 1 for none. It is 2 if the number differs
	// between tiles or is unknown.
	Split int `json:"split,omitempty"`
	// Orientation is set if the launch computes something other than C, or if the tile's sides may be
	// swapped: [OrientationTransposed], [OrientationUnknown].
	Orientation string `json:"orientation,omitempty"`
}

// The orientations.
const (
	// OrientationTransposed means that the launch computes Cᵀ = Bᵀ·Aᵀ. Its tile is still given in rows and
	// columns of C.
	OrientationTransposed = "transposed"
	// OrientationUnknown means that either of the first two sides may lie along M.
	OrientationUnknown = "unknown"
)

// mostTiling limits the integer fields of a [Tiling].
const mostTiling = 1 << 31

// Validate returns an error that names the first invalid field.
func (t Tiling) Validate() error {
	for i, side := range t.Tile {
		if side < 0 || side > mostTiling {
			return fmt.Errorf("tile_%c is %d", "mnk"[i], side)
		}
	}
	switch {
	case !(t.Waves >= 0) || math.IsInf(t.Waves, 0):
		return fmt.Errorf("waves is %v", t.Waves)
	case t.Split < 0 || t.Split > mostTiling:
		return fmt.Errorf("split is %d", t.Split)
	}
	return nil
}

// Tiled reports whether the tile's rows and columns are known.
func (t Tiling) Tiled() bool { return t.Tile[0] > 0 && t.Tile[1] > 0 }

// Or returns t with its unknown fields taken from o.
func (t Tiling) Or(o Tiling) Tiling {
	if !t.Tiled() && o.Tiled() {
		t.Tile, t.Orientation = o.Tile, o.Orientation
	}
	if t.Waves == 0 {
		t.Waves = o.Waves
	}
	if t.Split == 0 {
		t.Split = o.Split
	}
	return t
}

// TilingOf returns a launch's tiling, zero if unknown. Like a label, it may be known only after the launch
// has run.
func TilingOf(l Launch) Tiling {
	if t, ok := l.(TilingTeller); ok {
		return t.Tiling()
	}
	return Tiling{}
}
