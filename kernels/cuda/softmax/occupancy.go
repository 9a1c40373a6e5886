package softmax

import (
	"math"
	"sync"

	"github.com/gemmaudit/gemmaudit/kernels/cuda/artefacts"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/planning"
)

// The limits of a multiprocessor (CUDA C++ Programming Guide, table of technical
// specifications by compute capability): those of all, and by capability.
const (
	registersOfSM    = 64 << 10
	registerGranule  = 256 // registers that a warp is given at once
	registersOfBlock = 64 << 10
)

func threadsOfSM(a planning.Arch) int {
	switch {
	case a.CC < 80:
		return 1024
	case a.CC == 80, a.CC >= 90 && a.CC < 120:
		return 2048
	}
	return 1536
}

func blocksOfSM(a planning.Arch) int {
	switch {
	case a.CC == 80, a.CC >= 90 && a.CC < 120:
		return 32
	case a.CC == 89, a.CC >= 120:
		return 24
	}
	return 16
}

// built is a kernel's figures by symbol and capability, nil where it is not built: looked up
// once, since plans ask often.
var built sync.Map

type builtKey struct {
	kernel string
	cc     int
}

func figuresOf(kernel string, cc int) *artefacts.Figures {
	key := builtKey{kernel, cc}
	if known, ok := built.Load(key); ok {
		return known.(*artefacts.Figures)
	}
	var figures *artefacts.Figures
	if k, err := artefacts.Find(kernel, cc); err == nil {
		figures = &k.Figures
	}
	built.Store(key, figures)
	return figures
}

// residentBlocks is how many blocks of so many threads of a kernel a multiprocessor runs at a
// time; 0 where it runs none, or the kernel is not built for it.
func residentBlocks(a planning.Arch, kernel string, threads int) int {
	k := figuresOf(kernel, a.CC)
	if k == nil || threads > k.Threads {
		return 0
	}
	warps := planning.DivideUp(threads, 32)
	registers := planning.DivideUp(32*k.Registers, registerGranule) * registerGranule * warps
	if registers > registersOfBlock {
		return 0
	}
	n := min(registersOfSM/registers, threadsOfSM(a)/(32*warps), blocksOfSM(a))
	if k.Shared > 0 {
		n = min(n, a.SharedMax/k.Shared)
	}
	return n
}

// work is what a launch has to do, as the model of its time sees it.
type work struct {
	blocks, threads, perSM int
	// held is the bytes that a block has under way at once, at most, and passes how often
	// it begins anew with that many.
	held, passes float64
	// again is how often the input is read beyond the first time, of memory or of L2.
	again float64
	// meeting is how long a block takes to find its sums once all elements have come, in seconds.
	meeting float64
	// slots is the pieces of 16 bytes that threads work on, those that are not there included.
	slots float64
}

// What the model of times knows of all GPUs, in seconds unless it says otherwise. They are of
// the order of what was measured on 9.0, and decide only between kernels of like times.
const (
	loadLatency     = 0.8e-6 // of a load from memory among others
	warpMeeting     = 0.15e-6
	blockMeeting    = 0.35e-6
	clusterMeeting  = 0.9e-6
	exchangeMeeting = 2e-6 // over global memory
	memoryReached   = 0.9  // part of the data sheet's bandwidth
	cyclesOfPiece16 = 110  // instructions of a warp for a piece of eight elements in each lane
	cyclesOfPiece32 = 65   // of four elements
)

// seconds is what the model expects. Memory, instructions and the time that blocks wait bound
// the launch together; blocks that wait take the less the more bytes are under way.
func (w work) seconds(a planning.Arch, p Problem) float64 {
	in, out := p.bytes()
	clock := a.ClockMHz * 1e6
	ofSM := planning.L2PerClock(a) * clock // bytes a second from L2 to a multiprocessor
	bandwidth := a.Bandwidth * memoryReached
	if p.stays(a) || bandwidth <= 0 {
		bandwidth = ofSM * float64(a.SMs)
	}
	memory := (in*(1+w.again) + out) / bandwidth

	instructions := cyclesOfPiece16
	if p.DType.Size() == 4 {
		instructions = cyclesOfPiece32
	}
	busy := min(w.blocks, a.SMs)
	arithmetic := w.slots / 32 * float64(instructions) / (4 * clock * float64(busy))

	slots := float64(w.perSM * a.SMs)
	neighbours := min(float64(w.perSM), math.Ceil(float64(w.blocks)/float64(a.SMs)))
	life := w.passes*(loadLatency+neighbours*w.held/ofSM) + w.meeting
	waiting := max(1, float64(w.blocks)/slots) * life
	return planning.LaunchSeconds(a) + math.Sqrt(memory*memory+arithmetic*arithmetic+waiting*waiting)
}

// waves is how many times the blocks fill the GPU.
func (w work) waves(a planning.Arch) float64 { return planning.Waves(a, w.blocks, w.perSM) }
