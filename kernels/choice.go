package kernels

import (
	"cmp"
	"errors"
	"fmt"
)

// Choice describes the kernel launched for a problem, known without running it. Unknown fields are zero.
type Choice struct {
	// Label equals [Launch].Label after the launch.
	Label string `json:"label"`
	// Tiling is what [TilingTeller] returns for the launch.
	Tiling
	// Stages is the number of K steps in flight at once.
	Stages int `json:"stages,omitempty"`
	// Cluster is the cluster shape in blocks; zero if none.
	Cluster [3]int `json:"cluster,omitzero"`
	// Slots is the number of tiles that run at once on the device.
	Slots float64 `json:"slots,omitempty"`
	// Grid is the launch grid in blocks.
	Grid [3]int `json:"grid,omitzero"`
	// Algorithm makes the library launch this kernel regardless of its heuristic.
	Algorithm Algorithm `json:"algorithm,omitzero"`
}

// Sides infers the tile's orientation in an m by n output from the number of blocks: 1 if its first side lies
// along M, as reported, -1 if the second does, 0 if unknown. Persistent kernels launch fewer blocks.
func (c Choice) Sides(m, n int) int {
	blocks := c.Grid[0] * c.Grid[1] * c.Grid[2]
	if blocks < 1 || !c.Tiled() {
		return 0
	}
	told, turned := c.covers(c.Tile[0], c.Tile[1], m, n, blocks), c.covers(c.Tile[1], c.Tile[0], m, n, blocks)
	switch {
	case told && !turned:
		return 1
	case turned && !told:
		return -1
	}
	return 0
}

// covers reports whether blocks blocks cover m by n with a by b tiles: one block per tile, or per split of K,
// in whole clusters.
func (c Choice) covers(a, b, m, n, blocks int) bool {
	tiles := (m + a - 1) / a * ((n + b - 1) / b)
	if c.Split > 1 { // usually the number of splits is unknown
		return blocks > tiles && blocks%tiles == 0 && blocks/tiles <= mostParts
	}
	cluster := max(1, c.Cluster[0]*c.Cluster[1]*c.Cluster[2])
	return blocks == tiles || blocks == (tiles+cluster-1)/cluster*cluster
}

const mostParts = 64

// ErrUntold is the error of a kernel that can't report its choice.
var ErrUntold = errors.New("no interface to report its kernels")

// TellsNothing is the Choice of kernels that can't report theirs, which embed it.
type TellsNothing struct{}

// Choice implements [Kernel]; the error is [ErrUntold].
func (TellsNothing) Choice(Task) (Choice, error) { return Choice{}, ErrUntold }

// ChoiceOf is [Kernel.Choice] where batches and quantized weights are untold, and an [ErrUntold] names the kernel.
func ChoiceOf(k Kernel, t Task) (c Choice, err error) {
	switch {
	case t.Products > 0:
		err = ErrUntold
	case t.Quantized():
		err = cmp.Or(k.Supports(t), ErrUntold)
	default:
		c, err = k.Choice(t)
	}
	if errors.Is(err, ErrUntold) {
		err = fmt.Errorf("kernel %s has %w", k.Name(), err)
	}
	return c, err
}

// Tellers returns up to n kernels, k first, that report k's choices and may be used concurrently, one goroutine
// each: see [ManyTellers].
func Tellers(k Kernel, n int) ([]Kernel, error) {
	if many, ok := k.(ManyTellers); ok {
		return many.Tellers(n)
	}
	return []Kernel{k}, nil
}
