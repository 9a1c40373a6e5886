package kernels

import (
	"context"
	"time"
)

// The interfaces below are optional for a device, kernel, buffer or weights. The caller looks for them with a
// type assertion:
//
//	implemented by  interface       used for
//	Device          Starter         asynchronous blocks
//	Device          Primer          first runs before timing
//	Device          Threaded        fewer host threads
//	Device          MemoryTeller    free memory
//	Device          BandwidthMeter  repeated bandwidth measurements
//	Device          EnergyMeter     energy of sustained runs
//	Device          CardTeller      the card's state, for doctor
//	Device          Attender        attention and its correctness check
//	Device          KernelLoader    kernels from files
//	Device          SoftmaxLoader   softmax kernels from files
//	Device          WorkerLoader    kernels of another process
//	Device          Waiter          signs of life while another process works
//	Device          LaunchCopier    timed copies of rows
//	Device          ConstantsTeller constants that plan its kernels
//	Device          TimesOnly       simulated devices without results
//	Provider        LibraryChooser  selected libraries and versions
//	Kernel          AlgorithmTaker  library algorithms by attributes
//	Kernel          Candidates      further choices of a library
//	Kernel          Planned         plans of our kernels, on request
//	Kernel          SumScaler       weights without rounding
//	Kernel          Packer          whether weights are packed
//	Kernel          Elsewhere       the process that computes
//	Kernel          Typed           data types that are declared
//	Kernel          Recorder        launches that are recorded before they run
//	Kernel          HalfSummer      partial sums of 16 bits
//	Kernel          ActivationRounder  activations rounded to 8 bits
//	Kernel          ManyTellers     concurrent choices
//	Buffer          Copier          fast copies of buffers
//	Weights         Copyable        fast copies of packed weights
//	Weights         Detached        freeing the raw B
//	Weights         Packed          packing time
//	Launch          TilingTeller    tile, waves, split and orientation
//
// A decoder needs more of a device: see package mistral's Backend.

// Starter is implemented by devices that run a block asynchronously.
type Starter interface {
	// Start begins a block and returns when the host's part is done; [Device.Execute] is Start and wait. One
	// more block may be started meanwhile: it begins when the first ends, and their times do not overlap.
	// Call wait once per block, in the order of the starts; it returns that block's error. Before wait, only
	// Telemetry, Bind, Label and [Primer.Prime] are allowed; Prime may wait for blocks in flight.
	Start(ctx context.Context, b Block) (wait func() (Span, error), err error)
}

// Primer is implemented by devices where a product's first run takes longer, for example to load code.
// Without Prime, [Device.Execute] would run it once before the block.
type Primer interface {
	// Prime runs l unless an equivalent launch has run. seconds is the time of that first run, 0 if nothing
	// ran. Errors are Execute's.
	Prime(ctx context.Context, l Launch) (seconds float64, err error)
}

// Threaded is implemented by devices that run on host threads.
type Threaded interface {
	// Threads returns the number of threads.
	Threads() int
	// WithThreads opens the device again with n threads, 1 to Threads.
	WithThreads(n int) (Device, error)
}

// MemoryTeller is implemented by devices that know their free memory in bytes. For others all of
// [Spec].MemoryBytes counts as free.
type MemoryTeller interface {
	FreeMemory() (bytes int64, ok bool)
}

// BandwidthMeter is implemented by devices that can measure bandwidth repeatedly, since other work changes
// it; [Device.Ceilings] measures once.
type BandwidthMeter interface {
	// Bandwidth returns the read and copy bandwidths, as in [Ceilings].
	Bandwidth(ctx context.Context) (read, copied float64, err error)
}

// EnergyMeter is implemented by devices with an energy counter.
type EnergyMeter interface {
	// EnergyMJ returns the energy in millijoules since an arbitrary start. The counter advances in steps of
	// up to 100 ms. The error says why it is unknown.
	EnergyMJ() (float64, error)
}

// CardTeller is implemented by devices that report their card's state: clocks, limits, errors, other
// processes.
type CardTeller interface {
	// CardState queries the card. The error says why nothing is known.
	CardState() (CardState, error)
}

// Attender is implemented by devices with attention.
type Attender interface {
	// Attend returns a bound launch. The error is an [*Unsupported] if no kernel takes the sizes, or names
	// the invalid operand.
	Attend(Attention) (Launch, error)
}

// KernelLoader is implemented by devices that load kernels from shared libraries with the interface of
// kernels/plugin.
type KernelLoader interface {
	// LoadKernel opens the file, adds its kernel and hash to the device, and returns it; a listed kernel is
	// returned again. The error says why the file or its name is unusable, or that it is for another kind of
	// device.
	LoadKernel(path string) (Kernel, error)
}

// SoftmaxLoader is implemented by devices that load softmax kernels likewise.
type SoftmaxLoader interface {
	// LoadSoftmax is LoadKernel for softmax. It returns nil and no error if the library has none.
	LoadSoftmax(path string) (Kernel, error)
}

// WorkerLoader is implemented by devices that run kernels of another process, such as Python's.
type WorkerLoader interface {
	// LoadWorker loads a file in the device's worker, which it starts if there is none, adds the kernels to the
	// device and returns them; the kernels of a loaded file are returned again. The error says why the worker, the
	// file or a name is unusable.
	LoadWorker(path string, how WorkerOptions) ([]Kernel, error)
}

// WorkerOptions say how to run a worker.
type WorkerOptions struct {
	Python string            // interpreter of files in Python; empty to look for one
	Eager  bool              // runs launches one by one, without CUDA graphs
	Log    func(line string) // receives what the kernels' code prints; nil discards it
	Limit  time.Duration     // of one call without a sign of life; 0 for none
}

// Waiter is implemented by devices whose calls may wait for another process, which they end themselves when it
// hangs.
type Waiter interface {
	// WhileWaiting makes the device call f regularly while it waits.
	WhileWaiting(f func())
}

// Elsewhere is implemented by kernels that another process computes. It uses the same device in turns with this
// one, so launches of both can't be mixed in a block.
type Elsewhere interface {
	Kernel
	// Process names the process, empty for this one.
	Process() string
}

// ProcessOf returns the process that computes a kernel, empty for this one.
func ProcessOf(k Kernel) string {
	if e, ok := k.(Elsewhere); ok {
		return e.Process()
	}
	return ""
}

// Typed is implemented by kernels that declare their data types.
type Typed interface {
	Kernel
	// DTypes lists the types; the kernel refuses all others.
	DTypes() []DType
}

// Recorder is implemented by kernels whose launches may be recorded before they run, such as in a CUDA graph. What
// ran at the recording must not decide what a replay computes.
type Recorder interface {
	Kernel
	// Record records launches for the next [Device.Execute] of the same launches. Operands may change in between. If
	// the kernel allocates its results, Execute fills them with NaN, or bytes 0x5a, before the replay.
	Record(ctx context.Context, launches []Launch) error
}

// HalfSummer is implemented by kernels that may round partial sums of a split K to 16 bits.
type HalfSummer interface {
	Kernel
	// HalfSums reports whether the kernel may do so for a task.
	HalfSums(t Task) bool
}

// ActivationRounder is implemented by kernels that round the activations of quantized weights to 8 bits, with a scale
// per [RoundedGroup] of them. Such a kernel runs only where its name is given.
type ActivationRounder interface {
	Kernel
	// RoundsActivations reports whether the kernel does so for a supported task.
	RoundsActivations(t Task) bool
}

// LaunchCopier is implemented by devices that can copy within their memory as a launch.
type LaunchCopier interface {
	// BindCopy returns a launch that copies bytes between two buffers, or within one if the ranges do not
	// overlap. Offsets are in bytes. The error names a range outside its buffer.
	BindCopy(to Buffer, toOffset int64, from Buffer, fromOffset, bytes int64) (Launch, error)
}

// TimesOnly is implemented by devices whose kernels may take time without computing.
type TimesOnly interface {
	// TimesOnly reports whether they do.
	TimesOnly() bool
}

// LibraryChooser is implemented by providers whose devices open vendor libraries.
type LibraryChooser interface {
	Provider
	// Libraries lists their names.
	Libraries() []string
	// WithLibraries returns a provider that opens the libraries at these paths. One path replaces the
	// default; several are named by [VersionNames].
	WithLibraries(paths map[string][]string) Provider
}

// Candidates is implemented by kernels that choose among algorithms and can run choices other than the first,
// such as a library with a heuristic. Each further choice is a named kernel that can be selected, measured
// and stored.
type Candidates interface {
	Kernel
	// Candidate returns the kernel of the nth choice after the first, n ≥ 1, named by [CandidateName]. The
	// algorithm depends on the problem. The kernel supports problems with that many choices.
	Candidate(n int) Kernel
}

// Planned is implemented by kernels that choose among plans by a model of times. Each plan is a kernel, like
// those of [Candidates], that is measured on request only.
type Planned interface {
	Kernel
	// Plan returns the kernel of the plan at place n by expected time, 0 for the fastest, named by
	// [CandidateName].
	Plan(n int) Kernel
}

// AlgorithmTaker is implemented by library kernels that can run an algorithm by its attributes, regardless of
// the heuristic.
type AlgorithmTaker interface {
	Kernel
	// WithAlgorithm returns the kernel of one algorithm, named by [AlgorithmName]. It supports the problems
	// for which the library accepts it.
	WithAlgorithm(a Algorithm) Kernel
}

// SumScaler is implemented by kernels that scale each group's integer sum instead of the weights, where that
// is faster. Their weights are not rounded to the activations' type.
type SumScaler interface {
	// ScalesSums reports whether the kernel does so for a supported problem.
	ScalesSums(t Task) bool
}

// Copier is implemented by buffers that are faster to copy than to fill.
type Copier interface {
	// CopyFrom copies the content of a buffer of the same device and size.
	CopyFrom(src Buffer) error
}

// Copyable is implemented by weights that are faster to copy than to prepare.
type Copyable interface {
	// Copy returns the same weights in new memory. raw holds the original B and replaces that buffer.
	Copy(raw Buffer) (Weights, error)
}

// Detached is implemented by weights that may outlive their raw B, such as packed copies. Otherwise keep the
// raw B.
type Detached interface {
	// Detached reports whether the raw B is no longer read.
	Detached() bool
}

// Packer is implemented by kernels that may pack weights.
type Packer interface {
	Kernel
	// Packs reports whether Prepare packs B for tasks like t, unless t.PackInside leaves that to the
	// launches.
	Packs(t Task) bool
}

// ManyTellers is implemented by kernels that can report choices concurrently.
type ManyTellers interface {
	Kernel
	// Tellers returns n kernels that report this kernel's choices, itself first, for one goroutine each. They
	// live as long as the device, which must not be used otherwise meanwhile.
	Tellers(n int) ([]Kernel, error)
}

// Packed is implemented by weights that may be a packed copy.
type Packed interface {
	// Packing returns the seconds that packing took. ok is false if B is read unchanged or each launch packs
	// it.
	Packing() (seconds float64, ok bool)
}

// TilingTeller is implemented by launches with a known tiling.
type TilingTeller interface {
	Launch
	// Tiling returns how the launch divides its work. Unknown fields are zero.
	Tiling() Tiling
}

// ConstantsTeller is implemented by devices that plan kernels with a card's constants.
type ConstantsTeller interface {
	// Constants returns the constants in use.
	Constants() Constants
}
