package hopper

import (
	"fmt"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/planning"
)

// label is "128x256 stages 4 cluster 2x1 split 60 of 120": rows and columns of C, ring, arrangement of a
// cluster's blocks in C, and how many of the tiles are split along K. "turns" follows the tile if each
// consumer has its own.
func (c hopperChoice) label() string {
	stages := c.stages()
	m, n, down := c.rows, c.cols, c.pair == stacked
	s, turns := "%dx%d%s stages %d", ""
	if c.transposed {
		m, n, down = n, m, c.pair == sideBySide
		s = "%dx%dt%s stages %d"
	}
	if c.turns {
		turns = " turns"
	}
	s = fmt.Sprintf(s, m, n, turns, stages)
	switch {
	case c.pair == single:
	case down:
		s += " cluster 2x1"
	default:
		s += " cluster 1x2"
	}
	if c.split > 0 {
		s += fmt.Sprintf(" split %d of %d", c.split, c.rowTiles*c.colTiles)
	}
	return s
}

func (c hopperChoice) tiling(a planning.Arch, d kernels.DType) kernels.Tiling {
	t := kernels.Tiling{
		Tile:  [3]int{c.rows, c.cols, hopperStepBytes / d.Size()},
		Waves: float64(c.rowTiles*c.colTiles) / float64(a.SMs/c.size()), Split: 1,
	}
	if c.transposed {
		t.Tile[0], t.Tile[1], t.Orientation = c.cols, c.rows, kernels.OrientationTransposed
	}
	if c.split > 0 {
		t.Split = 2 // a tile has as many parts as clusters that share it
	}
	return t
}
