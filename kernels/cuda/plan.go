package cuda

import (
	"cmp"
	"encoding/binary"
	"math"
	"slices"

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

// family is one rung of the ladder: a kernel that one can audit, in all the tile
// shapes it was built in. A family holds no state; everything it decides follows
// from the GPU and the problem, so that every decision is tested without a GPU.
type family interface {
	// name is the name by which the kernel is selected and stored: "hopper".
	name() string
	// describe is one line for people.
	describe(a arch) string
	// supports returns why p can't run on a, empty when it can. p is normalized.
	supports(a arch, p kernels.Problem) string
	// plan decides how p, which is normalized and supported, runs on a.
	plan(a arch, p kernels.Problem, o alignment) planned
}

// alignment is the largest power of two, at most 16, in bytes, that divides the
// address of a matrix and the distance of its rows. B needs none: [packed] weights
// are aligned to 16 bytes.
type alignment struct{ a, c int }

// planned is a decision: what will be launched, and what it is expected to cost.
type planned struct {
	// label names the decision on every row: "128x256x64 stages 4 cluster 2".
	label string
	// seconds is what the model expects of one launch, to be compared with that of
	// other plans only.
	seconds float64
	// scratch is the workspace in bytes, with any content. flags is that of a
	// second one, which holds zeros when the first call begins and must hold
	// zeros when the last one ends. Calls that overlap their predecessor touch
	// neither before they have waited for it.
	scratch, flags int64
	// bind makes the launches for operands at given addresses.
	bind func(at addresses) []call
}

// addresses are where a product's operands lie on the device. b is a packed
// matrix: N rows of K elements, ldb apart, ldb·size a multiple of 16, with zeros
// between K and ldb.
type addresses struct {
	a, b, c        uint64
	ldb            int
	scratch, flags uint64
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

// fastest is the plan of least expected time, the earlier of equal ones.
func fastest(plans []planned) planned {
	return slices.MinFunc(plans, func(x, y planned) int { return cmp.Compare(x.seconds, y.seconds) })
}

// families lists the rungs, the best first; each file puts its own in.
var families [rungs]family

// The order of the ladder.
const (
	rungHopper = iota
	rungMMA
	rungGemv
	rungWMMA
	rungTiled
	rungNaive
	rungs
)

func divideUp(a, b int) int { return (a + b - 1) / b }
