package gemm

import (
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
