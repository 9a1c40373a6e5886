package worker

import "encoding/json"

// Version is the version of the protocol that docs/worker.md describes.
const Version = 2

// File descriptors that a worker inherits.
const (
	requestsFD = 3 // it reads requests
	repliesFD  = 4 // it writes replies
	windowFD   = 5 // shared memory through which contents of buffers pass
)

// request is one line to the worker.
type request struct {
	ID     int64  `json:"id"`
	Call   string `json:"call"`
	Params any    `json:"params"`
}

// reply is one line from the worker: a result or an error, or progress before either.
type reply struct {
	ID       int64           `json:"id"`
	Result   json.RawMessage `json:"result,omitempty"`
	Error    *failure        `json:"error,omitempty"`
	Progress string          `json:"progress,omitempty"`
}

// failureKind says whose failure it is.
type failureKind string

const (
	unsupportedFailure failureKind = "unsupported" // the kernel refuses a task
	caseFailure        failureKind = "case"        // the user's code failed
	protocolFailure    failureKind = "protocol"    // the worker does not understand the request
	deviceFailure      failureKind = "device"      // the worker can't use its device any more
)

type failure struct {
	Kind    failureKind `json:"kind"`
	Message string      `json:"message"`         // one line
	Where   string      `json:"where,omitempty"` // "mine.py:12", the innermost line of the user's code
	Hint    string      `json:"hint,omitempty"`  // advice for the user
}

// memory is how buffers reach a worker.
type memory string

const (
	windowMemory memory = "window"   // the worker has copies; contents pass through the window
	ipcMemory    memory = "cuda-ipc" // the worker maps the program's memory
)

type helloParams struct {
	Protocol int          `json:"protocol"`
	Device   deviceParams `json:"device"`
	Window   int64        `json:"window"` // bytes
	Memory   []memory     `json:"memory"` // offered, best first
	Eager    bool         `json:"eager"`  // never capture graphs
	// GraphBytes is the most memory that kept graphs and their results may take.
	GraphBytes int64   `json:"graph_bytes,omitempty"`
	Stamps     *Stamps `json:"stamps,omitempty"` // on a GPU
}

type deviceParams struct {
	ID      string `json:"id"` // "cpu", "cuda:0"
	Kind    string `json:"kind"`
	Threads int    `json:"threads,omitempty"` // of a CPU
}

type helloResult struct {
	Protocol int    `json:"protocol"`
	Runtime  string `json:"runtime"` // "Python 3.11.7"
	Memory   memory `json:"memory"`  // chosen of those offered
}

type loadParams struct {
	Path string `json:"path"` // absolute
}

type loadResult struct {
	Kernels  []kernelText      `json:"kernels"`
	Files    []fileText        `json:"files"`    // the file, and modules beside it that it imported
	Versions map[string]string `json:"versions"` // "python", "torch", "triton"
	// Settings are what changes results or times: flags of backends, variables of the environment.
	Settings map[string]string `json:"settings"`
	Memory   memory            `json:"memory,omitempty"` // if loading changed what hello chose
}

type fileText struct {
	Name   string `json:"name"` // relative to the file's folder
	SHA256 string `json:"sha256"`
}

type kernelText struct {
	Name        string   `json:"name"`
	Operation   string   `json:"operation"` // "gemm", "grouped", "fused", "softmax", "attention-prefill"
	Description string   `json:"description"`
	DTypes      []string `json:"dtypes"`
	Layouts     []string `json:"layouts,omitempty"` // of weights: "nk", "kn"
	Weights     []string `json:"weights,omitempty"` // formats of quantized weights: "int4:128", or "int4" for any group
	Batched     bool     `json:"batched,omitempty"`
	Packs       bool     `json:"packs,omitempty"` // it has prepare
	Writes      bool     `json:"writes"`          // into a given output
	// HalfSums are types whose partial sums may be rounded to 16 bits when K is split.
	HalfSums []string `json:"half_sums,omitempty"`
}

// taskText is a normalized task. Dimensions that do not apply are absent.
type taskText struct {
	Operation   string       `json:"operation"`
	DType       string       `json:"dtype"`
	Output      string       `json:"output"`
	Accumulator string       `json:"accumulator"`
	M           int          `json:"m"`
	GroupRows   []int        `json:"group_rows,omitempty"`  // of a grouped product, of each group
	Epilogue    string       `json:"epilogue,omitempty"`    // of a fused product: "bias+gelu"
	ResidualAt  int          `json:"residual_at,omitempty"` // of a residual: elements after the first of in
	Dims        any          `json:"dims"`                  // as in run files
	Layout      string       `json:"layout,omitempty"`
	LDA         int          `json:"lda,omitempty"`
	LDB         int          `json:"ldb,omitempty"`
	LDC         int          `json:"ldc,omitempty"`
	StrideA     int          `json:"stride_a,omitempty"`
	StrideB     int          `json:"stride_b,omitempty"`
	StrideC     int          `json:"stride_c,omitempty"`
	Scale       float32      `json:"scale,omitempty"`
	Capacity    int          `json:"capacity,omitempty"` // tokens that a cache of keys and values has room for
	Weights     *weightsText `json:"weights,omitempty"`  // of quantized weights
	Scales      *scalesText  `json:"scales,omitempty"`   // of activations
}

// scalesText places the scales of activations in the buffer of in: that of row i and group g is element g·ld + i from at on,
// which is in bytes after the first element of in.
type scalesText struct {
	Type   string `json:"type"`
	At     int    `json:"at"`
	LD     int    `json:"ld"`
	Groups int    `json:"groups"` // along K
	Group  int    `json:"group"`  // elements of K in a group; the last may be shorter
}

// weightsText is the format of quantized weights and where their parts lie in the buffer, in bytes.
type weightsText struct {
	Format   string `json:"format"` // "int4:128"
	Bits     int    `json:"bits"`
	Group    int    `json:"group"`             // along K
	Columns  int    `json:"columns,omitempty"` // along N, if they share scales
	Scale    string `json:"scale"`             // type
	ScalesAt int64  `json:"scales_at"`
	ZeroBits int    `json:"zero_bits,omitempty"`
	ZerosAt  int64  `json:"zeros_at,omitempty"`
}

type supportsParams struct {
	Kernel string   `json:"kernel"`
	Task   taskText `json:"task"`
}

type openParams struct {
	Buffer int64 `json:"buffer"`
	Bytes  int64 `json:"bytes"`
	// Handle is a cudaIpcMemHandle_t in base64 of the allocation that has the buffer at Offset.
	Handle string `json:"handle,omitempty"`
	Offset int64  `json:"offset,omitempty"`
}

// moveParams is for write, from the window to a buffer, and read, back.
type moveParams struct {
	Buffer int64 `json:"buffer"`
	Offset int64 `json:"offset"`
	Bytes  int64 `json:"bytes"`
	Window int64 `json:"window,omitempty"` // where the bytes begin in the window
}

// setupParams has calls that prepare launches, in order.
type setupParams struct {
	Steps []setupStep `json:"steps"`
}

type setupStep struct {
	Call   string `json:"call"` // open, write, prepare, bind, bind_copy or close
	Params any    `json:"params"`
}

// setupResult has the results of all steps. If one fails, its error is the answer, and those after it were not made.
type setupResult struct {
	Results []json.RawMessage `json:"results"`
}

type closeParams struct {
	Launches []int64 `json:"launches,omitempty"`
	Weights  []int64 `json:"weights,omitempty"`
	Buffers  []int64 `json:"buffers,omitempty"`
}

type prepareParams struct {
	Weights int64    `json:"weights"`
	Kernel  string   `json:"kernel"`
	Task    taskText `json:"task"`
	Buffer  int64    `json:"buffer"`
}

type prepareResult struct {
	Bytes   int64   `json:"bytes"`   // of the packed weights, 0 if the buffer serves as it is
	Seconds float64 `json:"seconds"` // of packing
}

type bindParams struct {
	Launch  int64       `json:"launch"`
	Kernel  string      `json:"kernel"`
	Task    taskText    `json:"task"`
	Part    bool        `json:"part,omitempty"` // its result is part of a larger one, and has to be put there in the timing
	In      operandText `json:"in"`
	Weights int64       `json:"weights,omitempty"`
	Out     operandText `json:"out"`
}

// copyParams binds a copy of bytes between buffers as a launch.
type copyParams struct {
	Launch int64       `json:"launch"`
	From   operandText `json:"from"`
	To     operandText `json:"to"`
	Bytes  int64       `json:"bytes"`
}

// operandText has its offset in elements, or in bytes for a copy.
type operandText struct {
	Buffer int64 `json:"buffer"`
	Offset int64 `json:"offset"`
}

type primeParams struct {
	Launch int64 `json:"launch"`
}

type primeResult struct {
	Seconds float64 `json:"seconds"` // of the last run, on the device's clock
	Runs    int     `json:"runs"`    // until times settled
	// Warmup is the time of all runs with what was compiled and tuned, in seconds.
	Warmup float64 `json:"warmup"`
}

type recordParams struct {
	Launches []int64 `json:"launches"`
}

type executeParams struct {
	Launches []int64 `json:"launches"` // in rotation, which may begin at any of them
	Runs     int     `json:"runs"`
	LeadIn   bool    `json:"lead_in,omitempty"` // run the block once before, untimed
}

type executeResult struct {
	Seconds  float64 `json:"seconds"`
	Ahead    int     `json:"ahead,omitempty"` // untimed runs
	ClockMHz float64 `json:"clock_mhz,omitempty"`
	// Host is the host's time to start the runs one by one, in seconds; 0 for a graph.
	Host  float64 `json:"host,omitempty"`
	Held  float64 `json:"held,omitempty"`  // seconds that the host held up the device
	Graph bool    `json:"graph"`           // the runs were nodes of a CUDA graph
	Eager string  `json:"eager,omitempty"` // why they were not
	// Label is what the kernel says of itself.
	Label string     `json:"label,omitempty"`
	Nodes []nodeText `json:"nodes,omitempty"` // of one run
}

type nodeText struct {
	Kernel string `json:"kernel"`
	Grid   [3]int `json:"grid"`
	Block  [3]int `json:"block"`
}

// Stamps is device code that a worker launches around a block, in its primary context, so that its times and clocks
// are taken as the program takes its own.
type Stamps struct {
	Module []byte `json:"module"` // cubin for this GPU
	Stamp  Call   `json:"stamp"`
	Gate   Call   `json:"gate"`
	// Slots is how many stamps Stamp writes to the address in its first 8 bytes of parameters, 32 bytes each: four
	// uint64, of which the second is the clock, the third the wall clock in ns and the fourth 1.
	Slots int `json:"slots"`
	// Gate's parameters are the address of an int32 flag, the address of two uint64 (1 if it timed out, the ns
	// waited), the limit in ns as int64 and the int32 ticket. It ends when the flag reaches the ticket.
}

// Call is a kernel launch. Params is its parameter buffer; addresses in it are 0.
type Call struct {
	Kernel string `json:"kernel"`
	Grid   [3]int `json:"grid"`
	Block  [3]int `json:"block"`
	Shared int    `json:"shared"`
	Params []byte `json:"params"`
}
