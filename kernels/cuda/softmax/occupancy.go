package softmax

import (
	"math"
	"sync"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/artefacts"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/planning"
)

// The limits of a multiprocessor (CUDA C++ Programming Guide, table of technical specifications by compute
// capability): common ones, and by capability.
const (
	registersOfSM    = 64 << 10
	registerGranule  = 256 // register allocation unit per warp
	registersOfBlock = 64 << 10
	partsOfSM        = 4 // schedulers, each with an equal share of registers
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

// built caches a kernel's figures by symbol and capability, nil if it is not built.
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

// reservedShared is the shared memory that the system reserves per block, from 8.0 on.
const reservedShared = 1 << 10

// residentBlocks returns a kernel's concurrent blocks per multiprocessor for the given threads and bytes of
// dynamic shared memory. It returns 0 if none fit, or the kernel is not built.
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

type work struct {
	blocks, threads, perSM int
	// vectors is the pieces of 16 bytes per thread between two waits for memory, including absent ones; slots
	// is the total over all threads of the launch.
	vectors int
	slots   float64
	// issued is the issue cycles of all warps in the launch. alone is the compute time of a lone block in
	// seconds, if pieces do not determine it.
	issued, alone float64
	// lost is the fraction of memory time lost to the layout of rows.
	lost float64
	// parts means that the kernel supports any form of rows, even if p's have one form.
	parts bool
	// held is a block's maximum bytes in flight, and passes how often it fills them again.
	held, passes float64
	// again is the number of extra reads of the input, from memory or L2.
	again float64
	// meeting is the time in seconds to reduce a row's sums after all elements have arrived.
	meeting float64
	// sharing is the blocks of a cluster per row, 1 without clusters; walks means that blocks walk over rows
	// instead of one block per row.
	sharing int
	walks   bool
	// inTurn is the average number of rows per block, each prefetched while the previous one is processed; 0
	// means one.
	inTurn float64
}

// The constants of the time model for all GPUs, in seconds unless noted. They were fitted to 3800 times of
// 124 cases on an H200, with rows of 1 to 262144 columns in three types, for the best choices of auto. In
// each of the 84 cases of 256 MiB, auto is within 3 % of the fastest.
const (
	loadLatency     = 1.43e-6 // of a load from memory under load
	warpMeeting     = 0.38e-6
	blockMeeting    = 0.235e-6
	warpOfMeeting   = 0.007e-6 // per warp of a synchronizing block
	clusterMeeting  = 0.044e-6 // per doubling of the cluster size
	clusterWaiting  = 0.286e-6 // per further block of a cluster on a full GPU: the slowest decides
	exchangeMeeting = 2.4e-6   // over global memory
	blockBegin      = 0.025e-6 // between two blocks on a multiprocessor
	clusterBegin    = 0.267e-6 // the same for clusters

	memoryReached = 0.856 // fraction of data-sheet bandwidth
	spreading     = 0.034 // fraction of memory time lost per spreadFrom bytes in flight on a multiprocessor
	spreadFrom    = 64e3  // beyond the first spreadFrom, up to spreadMost times
	spreadMost    = 1.9
	keptMemory    = 0.987   // factor of memory time if the output may stay in L2 for a while
	l2Reached     = 0.263   // fraction of a multiprocessor's L2 bandwidth, for reads and writes in L2
	sharpness     = 3       // exponent of the norm of a launch's bounds
	beginOfLaunch = 0.9     // fraction of a block's life at launch start without overlap
	walkersBegin  = 1.95e-6 // maximum of that time, for blocks that walk over rows
	// memoryIdle is the lost fraction of the time when all blocks of a multiprocessor compute or
	// synchronize; otherwise other blocks get their data faster.
	memoryIdle = 0.227
	inTurnIdle = 0.3   // the fraction that is lost in spite of prefetching
	inTurnLoss = 0.055 // relative time cost of prefetching

	// Cycles of a warp for one piece per lane: issue cycles for whole pieces and for other rows, extra cycles
	// of a row whose ends are stored element by element, and cycles of a lone warp.
	issueWhole16, issueWhole32 = 20, 7
	issueParts16, issueParts32 = 183, 71
	issueEnds16, issueEnds32   = 404, 426
	issueApart                 = 300 // of a row with separate ends
	lonePiece16, lonePiece32   = 465, 601
	// crowded is the slowdown of 16-bit pieces if a thread has too many to process several in registers.
	crowded, crowd = 1.154, 8
)

// cyclesOfPiece returns these cycles for a problem and a kernel's form of rows.
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

// seconds returns the modeled time. A launch is bound by memory, by instructions, and by blocks that wait or
// have yet to begin; the largest counts most. Then the startup of the first blocks and the time while all
// blocks of a multiprocessor compute or synchronize are added.
func (w work) seconds(a planning.Arch, p Problem) float64 {
	in, out := p.bytes()
	clock := a.ClockMHz * 1e6
	ofSM := planning.L2PerClock(a) * clock // bytes per second from L2 to a multiprocessor
	bandwidth := a.Bandwidth * memoryReached
	if p.stays(a) || bandwidth <= 0 {
		bandwidth = max(bandwidth, l2Reached*ofSM*float64(a.SMs))
	}
	memory := (in*(1+w.again) + out) / bandwidth
	if !p.stays(a) { // memory is slower with more concurrent read and write streams
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
	compute := float64(w.vectors) * (lone + max(0, warps/partsOfSM-1)*issue) / clock // of a lone block
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

// busyPart returns the fraction of time when at least one of n blocks uses memory. Each uses it for
// `uses` seconds between pauses of `apart` seconds. Method: mean value analysis of a closed queue.
func busyPart(uses, apart float64, n int) float64 {
	waiting, busy := 0.0, 0.0
	for i := 1; i <= n; i++ {
		stay := uses * (1 + waiting)
		rate := float64(i) / (stay + apart)
		waiting, busy = rate*stay, rate*uses
	}
	return busy
}

// plan returns the plan of one launch, whose blocks have tiles of rows and columns.
func (w work) plan(a planning.Arch, p Problem, label string, rows, columns int, call func(at Addresses) planning.Call) plan {
	return plan{
		Label: label, Tiling: kernels.Tiling{Tile: [3]int{rows, columns, 0}, Waves: planning.Waves(a, w.blocks, w.perSM), Split: 1},
		Seconds: w.seconds(a, p), Bind: func(at Addresses) []planning.Call { return []planning.Call{call(at)} },
	}
}
