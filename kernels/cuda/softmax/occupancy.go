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
	partsOfSM        = 4 // schedulers, each with as large a part of the registers
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

// reservedShared is the shared memory that a multiprocessor takes for itself for each block, from
// 8.0 on.
const reservedShared = 1 << 10

// residentBlocks is how many blocks of so many threads of a kernel, with so many bytes of dynamic shared
// memory, a multiprocessor runs at a time; 0 where it runs none, or the kernel is not built for it.
func residentBlocks(a planning.Arch, kernel string, threads, shared int) int {
	k := figuresOf(kernel, a.CC)
	if k == nil || threads > k.Threads || shared+k.Shared > a.SharedMax {
		return 0
	}
	warps := planning.DivideUp(threads, 32)
	registers := planning.DivideUp(32*k.Registers, registerGranule) * registerGranule // of a warp
	if registers*warps > registersOfBlock {
		return 0
	}
	n := min(registersOfSM/partsOfSM/registers*partsOfSM/warps, threadsOfSM(a)/(32*warps), blocksOfSM(a))
	switch shared += k.Shared; {
	case shared > 0 && a.CC < 80:
		n = min(n, a.SharedMax/shared)
	case shared > 0:
		n = min(n, (a.SharedMax+reservedShared)/(shared+reservedShared))
	}
	return n
}

// work is what a launch has to do, as the model of its time sees it.
type work struct {
	blocks, threads, perSM int
	// vectors is how many pieces of 16 bytes a thread goes through between two waits for
	// memory, those that are not there included; slots is that of all threads over the
	// whole launch.
	vectors int
	slots   float64
	// issued is the cycles in which warps issue instructions over the whole launch, and alone how long
	// a block by itself computes, in seconds, where pieces do not tell.
	issued, alone float64
	// lost is the part of memory's time that is lost to how rows lie.
	lost float64
	// parts is whether the kernel is for rows of any form, though p's have one.
	parts bool
	// held is the bytes that a block has under way at once, at most, and passes how often
	// it begins anew with that many.
	held, passes float64
	// again is how often the input is read beyond the first time, of memory or of L2.
	again float64
	// meeting is how long the threads of a row take to find its sums once all elements have
	// come, in seconds.
	meeting float64
	// sharing is how many blocks of a cluster share a row, 1 without clusters; walks is
	// whether blocks walk over the rows, rather than being launched for one.
	sharing int
	walks   bool
	// inTurn is how many rows a block has one after the other on average, each on its way while the one before
	// it is computed and written; 0 for one.
	inTurn float64
}

// What the model of times knows of all GPUs, in seconds unless it says otherwise. It was fitted
// to 3800 times of 124 cases on an H200, of rows of 1 to 262144 columns in three types, for auto to pick
// the fastest way: of the 84 cases of 256 MiB, auto's is more than 3 % behind it in none.
const (
	loadLatency     = 1.43e-6 // of a load from memory among others
	warpMeeting     = 0.38e-6
	blockMeeting    = 0.235e-6
	warpOfMeeting   = 0.007e-6 // for each warp of a block that meets
	clusterMeeting  = 0.044e-6 // for each time that the blocks of a cluster double
	clusterWaiting  = 0.286e-6 // for each further block of a cluster, on a full GPU: the slowest decides
	exchangeMeeting = 2.4e-6   // over global memory
	blockBegin      = 0.025e-6 // between two blocks that a multiprocessor begins
	clusterBegin    = 0.267e-6 // the same of clusters

	memoryReached = 0.856 // part of the data sheet's bandwidth
	spreading     = 0.034 // part of memory's time that is lost for each spreadFrom bytes of a multiprocessor
	spreadFrom    = 64e3  // under way beyond as many, of spreadMost times as many
	spreadMost    = 1.9
	keptMemory    = 0.987   // of memory's time, where what is written may stay in L2 for a while
	l2Reached     = 0.263   // part of what L2 gives a multiprocessor, where that is read and written
	sharpness     = 3       // the exponent of the norm of a launch's bounds: how little they add up
	beginOfLaunch = 0.9     // part of a block's life in which a launch has nothing else to do
	walkersBegin  = 1.95e-6 // that life at most, of blocks that walk over the rows
	// memoryIdle is the part of the time in which all blocks of a multiprocessor compute or meet
	// that is lost: for the rest, others get their data faster.
	memoryIdle = 0.227
	inTurnIdle = 0.3   // part of that which is lost although blocks fetch ahead
	inTurnLoss = 0.055 // part of the time that fetching ahead costs

	// Cycles of a warp for a piece in each lane: those in which it issues instructions, where rows
	// are whole pieces and where not; what a row adds whose ends are stored element by
	// element; and how long the piece takes a warp that is by itself.
	issueWhole16, issueWhole32 = 20, 7
	issueParts16, issueParts32 = 183, 71
	issueEnds16, issueEnds32   = 404, 426
	issueApart                 = 300 // of a row whose ends are taken apart
	lonePiece16, lonePiece32   = 465, 601
	// crowded is how much longer pieces of 16 bits take where a thread has so many that no
	// registers are left to work on several side by side.
	crowded, crowd = 1.154, 8
)

// cyclesOfPiece are the cycles above for a problem, of a kernel for rows of a form.
func (p Problem) cyclesOfPiece(f form) (issue, ends, lone float64) {
	whole, parts := float64(issueWhole16), float64(issueParts16)
	ends, lone = issueEnds16, lonePiece16
	if p.DType.Size() == 4 {
		whole, parts, ends, lone = issueWhole32, issueParts32, issueEnds32, lonePiece32
	}
	switch f {
	case wholeRows:
		return whole, 0, lone
	case endsApart:
		return whole, issueApart, lone
	}
	return parts, ends * (1 - float64(p.aligned)/pieceBytes), lone
}

// seconds is what the model expects. A launch is bound by memory, by instructions, and by blocks
// that wait or have yet to begin; of these the largest counts most. To that comes what the
// first blocks take until others have work for memory, and the time in which all
// blocks of a multiprocessor compute or meet.
func (w work) seconds(a planning.Arch, p Problem) float64 {
	in, out := p.bytes()
	clock := a.ClockMHz * 1e6
	ofSM := planning.L2PerClock(a) * clock // bytes a second from L2 to a multiprocessor
	bandwidth := a.Bandwidth * memoryReached
	if p.stays(a) || bandwidth <= 0 {
		bandwidth = max(bandwidth, l2Reached*ofSM*float64(a.SMs))
	}
	memory := (in*(1+w.again) + out) / bandwidth
	if !p.stays(a) { // memory is slower the more places are read and written at a time
		memory *= 1 + spreading*min(spreadMost, max(0, w.held*float64(w.perSM)/spreadFrom-1))
		if p.keep {
			memory *= keptMemory
		}
		memory *= 1 + w.lost
	}

	f := p.form()
	if w.parts {
		f = anyRows
	}
	issue, ends, lone := p.cyclesOfPiece(f)
	pieces := w.slots / 32
	issued := pieces*issue + min(pieces, float64(p.rows))*ends
	if w.issued > 0 {
		issued = w.issued
	}
	arithmetic := issued / (partsOfSM * clock * float64(min(w.blocks, a.SMs)))
	warps := float64(w.threads) / 32
	compute := float64(w.vectors) * (lone + max(0, warps/partsOfSM-1)*issue) / clock // of a block by itself
	if w.vectors >= crowd && p.DType.Size() == 2 && p.form() == wholeRows {
		compute *= crowded
	}
	if w.alone > 0 {
		compute = w.alone
	}

	perSM := float64(w.blocks) / float64(a.SMs)
	turns := max(1, w.inTurn)
	rounds := max(turns, perSM/float64(w.perSM))
	neighbours := min(float64(w.perSM), math.Ceil(perSM))
	life := w.passes*loadLatency + w.meeting + (1+w.passes)*w.held*neighbours/ofSM + w.passes*compute/2
	waiting, idle := 0.0, 0.0
	if w.walks {
		waiting = rounds * (w.passes/2*(loadLatency+compute) + w.meeting)
		life = min(life, walkersBegin)
	} else {
		begin := blockBegin
		if w.sharing > 1 {
			begin = clusterBegin
		}
		waiting = rounds*(w.passes*loadLatency/turns+w.meeting) + perSM*begin/turns
		if rounds > 1 {
			apart := loadLatency + w.meeting + compute + clusterWaiting*float64(w.sharing-1)
			idle = memory * memoryIdle * min(1, 1/busyPart(memory/perSM, apart, int(neighbours))-1)
		}
		if w.inTurn > 1 {
			idle = idle*min(1, 1/turns+inTurnIdle) + memory*inTurnLoss
		}
	}
	bound := math.Pow(math.Pow(memory, sharpness)+math.Pow(arithmetic, sharpness)+math.Pow(waiting, sharpness), 1.0/sharpness)
	return beginOfLaunch*life + bound + idle
}

// busyPart is the part of the time in which one of n blocks uses memory, each for `uses` seconds between
// two stretches of `apart` seconds without: the mean value analysis of a closed queue.
func busyPart(uses, apart float64, n int) float64 {
	waiting, busy := 0.0, 0.0
	for i := 1; i <= n; i++ {
		stay := uses * (1 + waiting)
		rate := float64(i) / (stay + apart)
		waiting, busy = rate*stay, rate*uses
	}
	return busy
}

// waves is how many times the blocks fill the GPU.
func (w work) waves(a planning.Arch) float64 { return planning.Waves(a, w.blocks, w.perSM) }
