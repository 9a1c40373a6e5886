// Package planning is the base of the kernel packages' plans and needs no GPU. It describes GPUs, kernel
// families and the choice among them, launches with their parameter structs, and the common parts of time
// models.
package planning

import (
	"encoding/binary"
	"math"

	"github.com/gemmaudit/gemmaudit/kernels"
)

// Arch is the description of a GPU for planning.
type Arch struct {
	CC        int     // compute capability × 10: 75, 80, 86, 89, 90
	SMs       int     // streaming multiprocessors
	SharedMax int     // maximum opt-in shared memory of a block, in bytes
	L2        int64   // bytes of L2
	ClockMHz  float64 // the highest SM clock
	Bandwidth float64 // data-sheet memory bandwidth, bytes per second
	LoadMHz   float64 // SM clock while candidates were timed, for fits; 0 if unknown
}

// LoadClock returns the clock under load in Hz: the recorded one, or else the fraction part (at most 1) of the
// highest clock.
func (a Arch) LoadClock(part float64) float64 {
	if a.LoadMHz > 0 {
		return a.LoadMHz * 1e6
	}
	return min(part, 1) * a.ClockMHz * 1e6
}

// Overlaps reports whether a launch may begin while its predecessor drains.
func (a Arch) Overlaps() bool { return a.CC >= 90 }

// Dim3 is the extent of a grid, a block or a cluster; zero fields count as one.
type Dim3 struct{ X, Y, Z int }

// Blocks returns the number of blocks in an extent.
func (e Dim3) Blocks() int { return max(1, e.X) * max(1, e.Y) * max(1, e.Z) }

// Call is one kernel launch. Every kernel takes one parameter: a struct, by value.
type Call struct {
	Kernel  string // the symbol in the module
	Grid    Dim3
	Block   Dim3
	Cluster Dim3 // zero: no cluster
	Shared  int  // dynamic shared memory in bytes
	Args    Args
	// Overlap lets the kernel begin while its predecessor drains (programmatic dependent launch, compute
	// capability 9.0). The kernel must execute griddepcontrol.wait before it accesses anything but weights.
	Overlap bool
	// Cooperative means that blocks wait for each other, so all must be resident. The launch is cooperative
	// if it does not overlap its predecessor and the GPU supports it.
	Cooperative bool
}

// Args builds a kernel's parameter struct with the device compiler's layout: each field aligned to its size,
// tensor maps to 64 bytes.
type Args struct {
	Bytes []byte
	Maps  []PlacedMap
}

// PlacedMap is a tensor map that the driver encodes into the struct at offset At.
type PlacedMap struct {
	At  int
	Map TensorMap
}

// TensorMap describes a row-major matrix for the tensor memory accelerator (CUDA driver API,
// cuTensorMapEncodeTiled). Boxes have BoxRows × BoxCols elements, with zeros outside the matrix.
type TensorMap struct {
	DType            kernels.DType
	Address          uint64 // a multiple of 16
	Rows, Cols       int    // in elements
	LD               int    // in elements; LD·size a multiple of 16
	BoxRows, BoxCols int    // each at most 256
	Swizzle          int    // 0, 32, 64 or 128 bytes
}

// TensorMapBytes is the size of a tensor map in a parameter struct.
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

// NoTensorMap leaves the room of a tensor map that the kernel does not read.
func (a *Args) NoTensorMap() *Args {
	a.Align(64)
	a.Bytes = append(a.Bytes, make([]byte, TensorMapBytes)...)
	return a
}

// DivideUp returns a divided by b, rounded up.
func DivideUp(a, b int) int { return (a + b - 1) / b }

// OneIf returns 1 if yes, else 0.
func OneIf(yes bool) int {
	if yes {
		return 1
	}
	return 0
}

// AlignmentOf returns the largest power of two, at most 16, that divides an address and a row stride in
// bytes.
func AlignmentOf(address uint64, rowBytes int64) int {
	n := 16
	for n > 1 && (address|uint64(rowBytes))&uint64(n-1) != 0 {
		n /= 2
	}
	return n
}

// KeptPlans is the cache size for product plans and for library choices. A product is planned once and looked
// up for each copy of its weights; evicted products are planned again.
const KeptPlans = 1 << 14

// Shared90 is a block's maximum shared memory on compute capability 9.0, in bytes.
const Shared90 = 227 << 10
