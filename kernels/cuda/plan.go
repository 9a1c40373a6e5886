package cuda

import (
	"encoding/binary"
	"math"

	"github.com/gemmaudit/gemmaudit/kernels"
)

// arch is what a plan needs to know of a GPU.
type arch struct {
	cc        int     // compute capability × 10: 75, 80, 86, 89, 90
	sms       int     // streaming multiprocessors
	sharedMax int     // bytes of shared memory that one block may opt in to
	l2        int64   // bytes of L2
	clockMHz  float64 // the highest SM clock
	bandwidth float64 // of memory, bytes a second, as the data sheet has it
}

// dim3 is the extent of a grid, a block or a cluster; zero fields count as one.
type dim3 struct{ x, y, z int }

// call is one kernel launch. Every kernel takes exactly one parameter: a struct,
// by value.
type call struct {
	kernel  string // the symbol in the module
	grid    dim3
	block   dim3
	cluster dim3 // zero for none
	shared  int  // dynamic shared memory in bytes
	args    args
	// overlap lets the kernel begin while its predecessor drains (programmatic
	// dependent launch, compute capability 9.0). The kernel then waits, with
	// griddepcontrol.wait, before it touches anything but weights.
	overlap bool
}

// args is the struct that a kernel takes, laid out as the device compiler does:
// each field aligned to its size, tensor maps to 64 bytes.
type args struct {
	bytes []byte
	maps  []placedMap
}

// placedMap is a tensor map that the driver encodes into the struct at offset at.
type placedMap struct {
	at int
	m  tensorMap
}

// tensorMap is a row-major matrix as the tensor memory accelerator sees it
// (CUDA driver API, cuTensorMapEncodeTiled): boxes of boxRows × boxCols elements,
// zeros where a box leaves the matrix.
type tensorMap struct {
	dtype            kernels.DType
	address          uint64 // a multiple of 16
	rows, cols       int    // in elements
	ld               int    // in elements; ld·size a multiple of 16
	boxRows, boxCols int    // each at most 256
	swizzle          int    // 0, 32, 64 or 128 bytes
}

const tensorMapBytes = 128

// align pads to a multiple of n, a power of two.
func (a *args) align(n int) {
	for len(a.bytes)%n != 0 {
		a.bytes = append(a.bytes, 0)
	}
}

// pointer appends a 64-bit address.
func (a *args) pointer(p uint64) *args { return a.int64(int64(p)) }

// int64 appends a 64-bit integer.
func (a *args) int64(v int64) *args {
	a.align(8)
	a.bytes = binary.LittleEndian.AppendUint64(a.bytes, uint64(v))
	return a
}

// int32 appends 32-bit integers.
func (a *args) int32(values ...int) *args {
	a.align(4)
	for _, v := range values {
		a.bytes = binary.LittleEndian.AppendUint32(a.bytes, uint32(int32(v)))
	}
	return a
}

// float32 appends a number, rounded to fp32.
func (a *args) float32(v float64) *args { return a.int32(int(int32(math.Float32bits(float32(v))))) }

// tensorMap appends a tensor map.
func (a *args) tensorMap(m tensorMap) *args {
	a.align(64)
	a.maps = append(a.maps, placedMap{at: len(a.bytes), m: m})
	a.bytes = append(a.bytes, make([]byte, tensorMapBytes)...)
	return a
}

// divideUp is a divided by b, rounded up.
func divideUp(a, b int) int { return (a + b - 1) / b }

// oneIf is how a kernel is told yes or no.
func oneIf(yes bool) int {
	if yes {
		return 1
	}
	return 0
}

// alignmentOf is the largest power of two, at most 16, that divides an address and the
// distance of rows, in bytes.
func alignmentOf(address uint64, rowBytes int64) int {
	n := 16
	for n > 1 && (address|uint64(rowBytes))&uint64(n-1) != 0 {
		n /= 2
	}
	return n
}
