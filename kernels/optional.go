package kernels

import "context"

// The interfaces below are optional: a device, a kernel, a buffer or weights that implement
// one are used better, and those that do not lack nothing else. A method set is looked for
// by the side that uses it:
//
//	implemented by  interface       used for
//	Device          Starter         running a block while the host does something else
//	Device          Primer          what only a first run takes, ahead of timing
//	Device          Threaded        fewer threads of the host
//	Device          MemoryTeller    how much memory is free now
//	Device          BandwidthMeter  bandwidths, as often as they are asked for
//	Device          EnergyMeter     the energy of sustained running
//	Device          CardTeller      what doctor says of a card
//	Device          Attender        attention, and its correctness check
//	Device          AttentionLister attention swept kernel by kernel
//	Device          SoftmaxLister   softmax and its logarithm, and their correctness check
//	Device          KernelLoader    kernels that are brought as files
//	Device          SoftmaxLoader   softmax that is brought as a file
//	Device          LaunchCopier    copies of rows as part of what is timed
//	Device          Calibrated      by which constants kernels are planned, and others in their place
//	Device          TimesOnly       that nothing is computed, so that results tell nothing
//	Provider        LibraryChooser  libraries that are named, in several versions
//	Gemm            AlgorithmTaker  algorithms of a library by their attributes
//	Gemm            Batcher         several products in one launch
//	Gemm            Candidates      the further choices of a library
//	Gemm            QuantisedGemm   weights that are integers with scales
//	Gemm            SumScaler       whether it rounds those weights
//	Gemm            Packer          whether a kernel packs its weights
//	Gemm            ChoiceTeller    what would run, without running it
//	Gemm            ManyTellers     the same of several problems at once
//	Buffer          Copier          copies of weights that are made fast
//	Weights         Copyable        the same of packed weights
//	Weights         Detached        freeing the raw B
//	Weights         Packed          how long packing took
//	Launch          TilingTeller    tile, waves, split and orientation beside the label
//
// A decoder needs more of a device: see package mistral's Backend.

// Starter is implemented by devices that run a block by themselves, while the host does
// something else.
type Starter interface {
	// Start begins a block and returns when nothing of it is left for the host to do;
	// [Device.Execute] is Start and wait. While it is in flight, one more may be started: it
	// begins when the first has ended, and neither is part of the other's time. wait must be
	// called once for each, in the order of the starts; its error is that block's. Between
	// the two, the device may be asked for what runs nothing on it: Telemetry, Bind, Label;
	// and [Primer.Prime] waits for what is in flight where it has something to run. All else
	// comes after wait.
	Start(ctx context.Context, b Block) (wait func() (Span, error), err error)
}

// Primer is implemented by devices on which the first run of a product takes what
// later ones don't, such as loading code, so that [Device.Execute] would run it once
// more ahead of the block.
type Primer interface {
	// Prime runs l once unless one like it has run. seconds is what that took, what
	// only a first run takes included; 0 when nothing ran. Errors are Execute's.
	Prime(ctx context.Context, l Launch) (seconds float64, err error)
}

// Threaded is implemented by devices that run on threads of the host.
type Threaded interface {
	// Threads is how many there are.
	Threads() int
	// WithThreads opens the device once more, on fewer threads: 1 to Threads of them.
	WithThreads(n int) (Device, error)
}

// MemoryTeller is implemented by devices that know how much of their memory is
// free right now, in bytes. Others are taken to have all of [Spec].MemoryBytes.
type MemoryTeller interface {
	FreeMemory() (bytes int64, ok bool)
}

// BandwidthMeter is implemented by devices that measure their memory as often as they are
// asked to, where [Device.Ceilings] does it once: what other work leaves of it changes.
type BandwidthMeter interface {
	// Bandwidth is that of reading and of copying, as in [Ceilings].
	Bandwidth(ctx context.Context) (read, copied float64, err error)
}

// EnergyMeter is implemented by devices that count the energy that they draw.
type EnergyMeter interface {
	// EnergyMJ is the energy drawn since some moment in the past, in millijoules. The
	// counter moves in steps of up to 100 ms. The error says why nothing is known.
	EnergyMJ() (float64, error)
}

// CardTeller is implemented by devices that can tell the state of the card they
// are: clocks, limits, errors, neighbours.
type CardTeller interface {
	// CardState looks at the card. An error says why nothing can be known.
	CardState() (CardState, error)
}

// Attender is implemented by devices that have attention.
type Attender interface {
	// Attend returns a launch that is bound to its operands. The error is an
	// [*Unsupported] where the device has no kernel for the sizes, and else names what is
	// wrong with the operands.
	Attend(Attention) (Launch, error)
}

// AttentionLister is implemented by devices whose ways of computing attention are selected
// by name; [Attender] leaves the choice to the device.
type AttentionLister interface {
	// AttentionKernels lists the ways, the best first.
	AttentionKernels() []AttentionKernel
}

// SoftmaxLister is implemented by devices that compute softmax.
type SoftmaxLister interface {
	// SoftmaxKernels lists the ways in which they do, the best first.
	SoftmaxKernels() []SoftmaxKernel
}

// KernelLoader is implemented by devices that run kernels brought from outside, as shared
// libraries with the interface of kernels/plugin.
type KernelLoader interface {
	// LoadKernel opens the file, lists its kernel among those of the device, with the
	// file's hash among the versions, and returns it; once more when it is listed. The
	// error says why the file or its name can't be used, or that it is for another kind of
	// device.
	LoadKernel(path string) (Gemm, error)
}

// SoftmaxLoader is implemented by devices that run a softmax brought from outside likewise.
type SoftmaxLoader interface {
	// LoadSoftmax is LoadKernel for a library with a softmax. It returns nil, and no error, where
	// the library has none.
	LoadSoftmax(path string) (SoftmaxKernel, error)
}

// LaunchCopier is implemented by devices that copy within their memory as one launch among others.
type LaunchCopier interface {
	// BindCopy returns a launch that copies so many bytes from the offset of one buffer, in bytes,
	// to that of another one, or of the same where the two do not overlap. The error names what
	// does not lie inside its buffer.
	BindCopy(to Buffer, toOffset int64, from Buffer, fromOffset, bytes int64) (Launch, error)
}

// TimesOnly is implemented by devices whose kernels may take time and compute nothing.
type TimesOnly interface {
	// TimesOnly says that they do.
	TimesOnly() bool
}

// LibraryChooser is implemented by providers whose devices open libraries of vendors.
type LibraryChooser interface {
	Provider
	// Libraries lists the names of these.
	Libraries() []string
	// WithLibraries returns a provider that opens the libraries at these paths in place
	// of those that it would look for. One path of a name takes its place; several are
	// listed as [VersionNames] has it.
	WithLibraries(paths map[string][]string) Provider
}

// Candidates is implemented by kernels that choose among algorithms of their own
// and can be told to run another than their first choice: a library with a
// heuristic. Each choice after the first is a kernel by itself, which is named,
// selected, measured and stored like any other.
type Candidates interface {
	Gemm
	// Candidate returns the kernel that runs the nth choice after the first, n ≥ 1,
	// under the name [CandidateName] gives it. Which algorithm that is depends on
	// the problem. It supports those problems for which there are so many choices.
	Candidate(n int) Gemm
}

// AlgorithmTaker is implemented by kernels of a library that runs an algorithm by its attributes,
// whatever its heuristic would choose.
type AlgorithmTaker interface {
	Gemm
	// WithAlgorithm returns the kernel that runs one algorithm, under the name [AlgorithmName]
	// gives it. It supports those problems for which the library accepts the algorithm.
	WithAlgorithm(a Algorithm) Gemm
}

// Batcher is implemented by kernels that compute a [Batch] in one launch. Its methods are
// those of [Gemm] for a batch: raw holds the B of every product, and the offsets of a and c
// are those of the first product.
type Batcher interface {
	Gemm
	// SupportsBatch returns nil, or an [*Unsupported] with the reason.
	SupportsBatch(b Batch) error
	// PrepareBatch is PrepareWeights for the weights of all products. The form depends
	// neither on b.M nor on the strides of A and C.
	PrepareBatch(b Batch, raw Buffer) (Weights, error)
	// BindBatch joins a batch with its operands.
	BindBatch(b Batch, a Operand, w Weights, c Operand) (Launch, error)
}

// QuantisedGemm is implemented by kernels that take weights as integers with scales. Its methods
// are those of [Gemm] for a [QuantisedProblem], which says what raw holds.
type QuantisedGemm interface {
	Gemm
	// SupportsQuantised returns nil, or an [*Unsupported] with the reason.
	SupportsQuantised(q QuantisedProblem) error
	// PrepareQuantised is PrepareWeights. The form does not depend on q.M.
	PrepareQuantised(q QuantisedProblem, raw Buffer) (Weights, error)
	// BindQuantised joins a product with its operands.
	BindQuantised(q QuantisedProblem, a Operand, w Weights, c Operand) (Launch, error)
}

// SumScaler is implemented by kernels that scale the sums of a group's integers instead of the integers, where
// that is faster. Their weights are not rounded to the type of the activations.
type SumScaler interface {
	// ScalesSums says whether the kernel does so of a problem that it supports.
	ScalesSums(q QuantisedProblem) bool
}

// Copier is implemented by buffers to which content is copied in less time than it is filled.
type Copier interface {
	// CopyFrom copies the content of a buffer of the same device and the same size.
	CopyFrom(src Buffer) error
}

// Copyable is implemented by weights that are copied in less time than they are prepared.
type Copyable interface {
	// Copy returns the same weights in memory of their own. raw holds the B that they were
	// prepared from and takes the place of that buffer.
	Copy(raw Buffer) (Weights, error)
}

// Detached is implemented by weights that may outlive the raw B that they were prepared
// from, as packed copies do. Of others the raw B must be kept.
type Detached interface {
	// Detached says that the raw B is no longer read.
	Detached() bool
}

// Packer is implemented by kernels that bring weights into a form of their own.
type Packer interface {
	Gemm
	// Packs says that PrepareWeights copies B into another form for problems like p, unless
	// p.PackInside leaves that to the launches.
	Packs(p Problem) bool
}

// ChoiceTeller is implemented by kernels that say what they would run without running it.
type ChoiceTeller interface {
	Gemm
	// Choice is what a launch of p would run, its operands aligned as a device allocates
	// them. Nothing of their size is allocated and nothing runs. The error is an
	// [*Unsupported] where p is not supported, and else says why nothing can be told.
	Choice(p Problem) (Choice, error)
}

// ManyTellers is implemented by kernels that several goroutines can ask at once.
type ManyTellers interface {
	ChoiceTeller
	// Tellers are n kernels that tell what this one does, which is the first of them. Each is asked by
	// one goroutine at a time; they live as long as the device. Nothing else may be done with
	// the device meanwhile.
	Tellers(n int) ([]ChoiceTeller, error)
}

// Packed is implemented by weights that may be such a copy.
type Packed interface {
	// Packing is how many seconds it took to bring B into this form, ahead of all launches.
	// ok is false where B is read as it was given, or each launch packs it.
	Packing() (seconds float64, ok bool)
}

// TilingTeller is implemented by launches whose tiles are known to whoever made them.
type TilingTeller interface {
	Launch
	// Tiling is how the launch divides its work. What is not known is zero.
	Tiling() Tiling
}

// Calibrated is implemented by devices whose kernels are planned by constants of a card.
type Calibrated interface {
	// Constants are those in force.
	Constants() Constants
	// UseConstants puts others in their place, for all that is bound from then on: the Text of
	// constants that were measured on such a card, or those that ship for an empty one. What can't be used is an
	// error, and changes nothing.
	UseConstants(text string) error
}
