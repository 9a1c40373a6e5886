package producer

// Formats lists the programs whose output is read, in the order in which they are tried. Another one is an entry here
// and its reader.
var Formats = []Format{
	{
		Name: "hipblaslt-bench", Command: "hipblaslt-bench … > FILE", Timed: true,
		Reads:     "m, n, k, types, trans, batch, us; the fastest solution of a product",
		LeavesOut: "grouped products, transposed activations, padded rows, slower solutions",
		starts:    func(h head) bool { return h.hasColumns("transa", "hipblaslt-gflops") }, read: readHipBLASLt,
	},
	{
		Name: "rocblas-bench", Command: "rocblas-bench -f gemm_ex … > FILE", Timed: true,
		Reads:     "m, n, k, trans, batch, us; types if there",
		LeavesOut: "other functions, transposed activations, padded rows",
		starts:    func(h head) bool { return h.hasColumns("rocblas-gflops", "us") }, read: readRocBLAS,
	},
	{
		Name: "nvbench", Command: "BENCHMARK --csv FILE", Timed: true,
		Reads:     "axes M, N, K, batch and type; GPU time; the device's name",
		LeavesOut: "skipped states, states without a GPU time",
		starts: func(h head) bool {
			return h.hasColumns("device name", "benchmark", "skipped")
		}, read: readNVBench,
	},
	{
		Name: "cutlass_profiler", Command: "cutlass_profiler --operation=Gemm … --output=FILE", Timed: true,
		Reads:     "m, n, k, A, B, D, batch_count, Runtime; the fastest operation of a product",
		LeavesOut: "operations that did not pass, other kinds than gemm, slower operations",
		starts: func(h head) bool {
			return h.hasColumns("problem", "provider", "operationkind", "disposition")
		}, read: readCUTLASS,
	},
	{
		Name: "tunableop", Command: "PYTORCH_TUNABLEOP_ENABLED=1 (tunableop_results*.csv)", Timed: true,
		Reads:     "the tuned time and solution of each product",
		LeavesOut: "batched and scaled products, products without a time",
		starts:    func(h head) bool { return h.tunableOp && h.tuned }, read: readTunableOp,
	},
	{
		Name: "tunableop-untuned", Command: "PYTORCH_TUNABLEOP_RECORD_UNTUNED=1 (tunableop_untuned*.csv)",
		Reads:     "products, how many lines name each",
		LeavesOut: "batched and scaled products",
		starts:    func(h head) bool { return h.tunableOp && !h.tuned }, read: readTunableOp,
	},
	{
		Name: "onednn-verbose", Command: "ONEDNN_VERBOSE=1 PROGRAM > FILE", Timed: true,
		Reads:     "matmul and inner_product: sizes, types, layout, implementation, time of each call",
		LeavesOut: "other primitives, transposed activations",
		starts:    func(h head) bool { return h.hasLine("onednn_verbose,", "dnnl_verbose,") }, read: readOneDNN,
	},
	{
		Name: "cublaslt-log", Command: "CUBLASLT_LOG_LEVEL=5 CUBLASLT_LOG_FILE=FILE PROGRAM",
		Reads:     "products of cublasLtMatmul, how often each was called",
		LeavesOut: "transposed activations, row-major matrices, padded rows",
		starts:    func(h head) bool { return h.contains("[cublasLt]") }, read: readCuBLASLt,
	},
	{
		Name: "cublas-log", Command: "CUBLAS_LOGINFO_DBG=1 CUBLAS_LOGDEST_DBG=FILE PROGRAM",
		Reads:     "products of cublas*gemm*, how often each was called",
		LeavesOut: "complex and double products, transposed activations, padded rows",
		starts:    func(h head) bool { return h.hasLine("I! cuBLAS (v") }, read: readCuBLAS,
	},
	{
		Name: "pytorch-trace", Command: "torch.profiler.profile(record_shapes=True).export_chrome_trace(FILE)",
		Reads:     "aten::mm, addmm, bmm, baddbmm, _scaled_mm, _int_mm: shapes, types, how often each was called",
		LeavesOut: "calls without shapes, types that are not measured",
		starts:    func(h head) bool { return h.json && (h.contains(`"traceEvents"`) || h.contains(`"schemaVersion"`)) }, read: readTrace,
	},
	{
		Name: "aiconfigurator", Command: "AIConfigurator's gemm_perf.parquet or .txt", Timed: true,
		Reads:     "m, n, k, gemm_dtype, kernel_source, device, latency",
		LeavesOut: "moe_perf (grouped products), types that are not measured",
		starts: func(h head) bool {
			return h.hasColumns("gemm_dtype", "latency") || h.hasColumns("moe_dtype", "latency")
		}, read: readAIConfigurator,
	},
	{
		Name: "shapes", Command: "a CSV of yours with columns m, n, k",
		Reads:     "m, n, k and, where they are there, dtype, layout, batch_count, calls",
		LeavesOut: "types that are not measured",
		starts:    func(h head) bool { return h.shapes() }, read: readShapes,
	},
}
