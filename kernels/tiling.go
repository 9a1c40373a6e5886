package kernels

import (
	"fmt"
	"math"
)

// Tiling is how a launch divides its work. What is not known is zero.
type Tiling struct {
	// Tile is the part of C that one block computes, M by N, and the step along K. A block
	// is what the device schedules on one of its units: thread blocks of a GPU; of a CPU,
	// the register tile.
	Tile [3]int `json:"tile,omitzero"`
	// Waves is how many times the blocks fill the device: blocks ÷ those that run at
	// the same time.
	Waves float64 `json:"waves,omitempty"`
	// Split is the number of parts along K that are summed afterwards, 1 for none. Where
	// that differs between tiles, or is not told, it is 2.
	Split int `json:"split,omitempty"`
	// Orientation says what is computed when it isn't C itself, or that the sides of the
	// tile may be the other way round: [OrientationTransposed], [OrientationUnknown].
	Orientation string `json:"orientation,omitempty"`
}

// The orientations.
const (
	// OrientationTransposed is that of launches that compute Cᵀ = Bᵀ·Aᵀ. Their tile is told
	// by the rows and columns of C all the same.
	OrientationTransposed = "transposed"
	// OrientationUnknown is that of launches of which it is not known which of the first
	// two sides of the tile lies along M.
	OrientationUnknown = "unknown"
)

// mostTiling bounds the fields of a [Tiling] that count.
const mostTiling = 1 << 31

// Validate returns an error that names the first field that no launch has.
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

// Tiled says whether the rows and columns of the tile are known.
func (t Tiling) Tiled() bool { return t.Tile[0] > 0 && t.Tile[1] > 0 }

// Or returns t with what it does not tell taken from o.
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

// TilingOf is what a launch tells of itself, zero where it tells nothing. Like a label, it
// may be known only once the launch has run.
func TilingOf(l Launch) Tiling {
	if t, ok := l.(TilingTeller); ok {
		return t.Tiling()
	}
	return Tiling{}
}
