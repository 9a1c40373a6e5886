// Package planning is what the kernels' rooms plan with, none of which needs a GPU: what a
// plan must know of one, families of kernels and the choice among them, launches and the
// structs that they take, and what all models of time have in common.
package planning

import (
	"encoding/binary"
	"math"

	"github.com/gemmaudit/gemmaudit/kernels"
)

// Arch is what a plan needs to know of a GPU.
type Arch struct {
	CC        int     // compute capability × 10: 75, 80, 86, 89, 90
	SMs       int     // streaming multiprocessors
	SharedMax int     // bytes of shared memory that one block may opt in to
	L2        int64   // bytes of L2
	ClockMHz  float64 // the highest SM clock
	Bandwidth float64 // of memory, bytes a second, as the data sheet has it
	LoadMHz   float64 // the SM clock while times were taken, 0 where nothing was timed
}

// LoadClock is the clock under load in hertz: that of the times, where some were taken, else a part of the highest one,
// beyond which it can't be.
func (a Arch) LoadClock(part float64) float64 {
	if a.LoadMHz > 0 {
		return a.LoadMHz * 1e6
	}
	return min(part, 1) * a.ClockMHz * 1e6
}

// Dim3 is the extent of a grid, a block or a cluster; zero fields count as one.
type Dim3 struct{ X, Y, Z int }

// Blocks is the number of blocks of an extent.
func (e Dim3) Blocks() int { return max(1, e.X) * max(1, e.Y) * max(1, e.Z) }

// Call is one kernel launch. Every kernel takes exactly one parameter: a struct,
// by value.
type Call struct {
	Kernel  string // the symbol in the module
	Grid    Dim3
	Block   Dim3
	Cluster Dim3 // zero for none
	Shared  int  // dynamic shared memory in bytes
	Args    Args
	// Overlap lets the kernel begin while its predecessor drains (programmatic
	// dependent launch, compute capability 9.0). The kernel then waits, with
	// griddepcontrol.wait, before it touches anything but weights.
	Overlap bool
	// Cooperative says that the blocks wait for each other, so that all of them must be on
	// the GPU at once: the driver is asked for that where the launch does not overlap its
	// predecessor and the GPU offers it.
	Cooperative bool
}

// Args is the struct that a kernel takes, laid out as the device compiler does:
// each field aligned to its size, tensor maps to 64 bytes.
type Args struct {
	Bytes []byte
	Maps  []PlacedMap
}

// PlacedMap is a tensor map that the driver encodes into the struct at offset At.
type PlacedMap struct {
	At  int
	Map TensorMap
}

// TensorMap is a row-major matrix as the tensor memory accelerator sees it
// (CUDA driver API, cuTensorMapEncodeTiled): boxes of BoxRows × BoxCols elements,
// zeros where a box leaves the matrix.
type TensorMap struct {
	DType            kernels.DType
	Address          uint64 // a multiple of 16
	Rows, Cols       int    // in elements
	LD               int    // in elements; LD·size a multiple of 16
	BoxRows, BoxCols int    // each at most 256
	Swizzle          int    // 0, 32, 64 or 128 bytes
}

// TensorMapBytes is the size of a tensor map in the struct that a kernel takes.
const TensorMapBytes = 128

// Align pads to a multiple of n, a power of two.
func (a *Args) Align(n int) {
	for len(a.Bytes)%n != 0 {
		a.Bytes = append(a.Bytes, 0)
	}
}

// Pointer appends a 64-bit address.
func (a *Args) Pointer(p uint64) *Args { return a.Int64(int64(p)) }

// Int64 appends a 64-bit integer.
func (a *Args) Int64(v int64) *Args {
	a.Align(8)
	a.Bytes = binary.LittleEndian.AppendUint64(a.Bytes, uint64(v))
	return a
}

// Int32 appends 32-bit integers.
func (a *Args) Int32(values ...int) *Args {
	a.Align(4)
	for _, v := range values {
		a.Bytes = binary.LittleEndian.AppendUint32(a.Bytes, uint32(int32(v)))
	}
	return a
}

// Float32 appends a number, rounded to fp32.
func (a *Args) Float32(v float64) *Args { return a.Int32(int(int32(math.Float32bits(float32(v))))) }

// TensorMap appends a tensor map.
func (a *Args) TensorMap(m TensorMap) *Args {
	a.Align(64)
	a.Maps = append(a.Maps, PlacedMap{At: len(a.Bytes), Map: m})
	a.Bytes = append(a.Bytes, make([]byte, TensorMapBytes)...)
	return a
}

// DivideUp is a divided by b, rounded up.
func DivideUp(a, b int) int { return (a + b - 1) / b }

// OneIf is how a kernel is told yes or no.
func OneIf(yes bool) int {
	if yes {
		return 1
	}
	return 0
}

// AlignmentOf is the largest power of two, at most 16, that divides an address and the
// distance of rows, in bytes.
func AlignmentOf(address uint64, rowBytes int64) int {
	n := 16
	for n > 1 && (address|uint64(rowBytes))&uint64(n-1) != 0 {
		n /= 2
	}
	return n
}

// KeptPlans is how many plans of products are remembered, ours and what libraries answer.
// A product is asked for when it is planned, and again for each copy of its weights;
// beyond that many products the plan is made anew.
const KeptPlans = 1 << 14

// Shared90 is the shared memory that a block may have on compute capability 9.0, in bytes.
const Shared90 = 227 << 10
