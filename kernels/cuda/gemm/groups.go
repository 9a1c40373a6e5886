package gemm

import (
	"slices"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/planning"
)

// Groups is a normalized grouped product, how its rows lie, and the alignment of its operands.
type Groups struct {
	kernels.Task
	Aligned Alignment
	// Stride is the distance in rows from one group's first row to the next one's, in A and in C; 0 means that groups follow
	// each other. Decoders leave the same room for every group: they launch the same graph with other sizes.
	Stride int
}

// Rows returns the rows of A and C, gaps included.
func (g Groups) Rows() int { return max(g.M, g.Stride*g.Groups) }

// Sizes returns the rows of the groups that have some.
func (g Groups) Sizes() []int {
	rows, err := g.GroupRows(g.M)
	if err != nil {
		return nil // a normalized task has them
	}
	return slices.DeleteFunc(slices.Clone(rows), func(n int) bool { return n == 0 })
}

// GroupWidth is a multiple of which tiles of tokens are wide.
const GroupWidth = 16

// GroupTiles returns the fewest tiles of at most so many tokens for the rows of a group, and their width: they are equally wide.
func GroupTiles(rows, most int) (tiles, width int) {
	if rows == 0 {
		return 0, 0
	}
	tiles = planning.DivideUp(rows, most)
	return tiles, planning.DivideUp(planning.DivideUp(rows, tiles), GroupWidth) * GroupWidth
}

// GroupAddresses are the device addresses of a grouped product's operands. B holds the weights of all groups, N rows each.
type GroupAddresses struct {
	Addresses
	Sizes uint64 // rows of each group, int32
}

// GroupFamily and GroupPlan are planning's types for grouped products.
type (
	GroupFamily = planning.Family[Groups, GroupAddresses]
	GroupPlan   = planning.Plan[GroupAddresses]
)

// GroupsInBuffers returns the normalized p with operands at the beginning of buffers.
func GroupsInBuffers(p kernels.Task) Groups { return GroupsAt(p, bufferAlignment, bufferAlignment) }

// GroupsAt returns the normalized p with A and C at addresses.
func GroupsAt(p kernels.Task, a, c uint64) Groups {
	return Groups{Task: p, Aligned: Alignment{
		A: planning.AlignmentOf(a, int64(p.K)*int64(p.DType.Size())),
		C: planning.AlignmentOf(c, int64(p.N)*int64(p.DType.Output().Size())),
	}}
}
