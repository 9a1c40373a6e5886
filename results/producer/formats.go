package producer

// Formats lists the supported programs in matching order. To add one, add an entry and its reader.
var Formats = []Format{
	{
		Name: "hipblaslt-bench", Command: "hipblaslt-bench … > FILE", Timed: true,
		Reads:     "m, n, k, types, trans, batch, us; the fastest solution of a product",
		LeavesOut: "grouped products, transposed activations, padded rows, slower solutions",
		starts:    columns("transa", "hipblaslt-gflops"), read: readHipBLASLt,
	},
	{
		Name: "rocblas-bench", Command: "rocblas-bench -f gemm_ex … > FILE", Timed: true,
		Reads:     "m, n, k, trans, batch, us; types if there",
		LeavesOut: "other functions, transposed activations, padded rows",
		starts:    columns("rocblas-gflops", "us"), read: readRocBLAS,
	},
	{
		Name: "nvbench", Command: "BENCHMARK --csv FILE", Timed: true,
		Reads:     "axes M, N, K, batch and type; GPU time; the device's name",
		LeavesOut: "skipped states, states without a GPU time",
		starts:    columns("device name", "benchmark", "skipped"), read: readNVBench,
	},
	{
		Name: "cutlass_profiler", Command: "cutlass_profiler --operation=Gemm … --output=FILE", Timed: true,
		Reads:     "m, n, k, A, B, D, batch_count, Runtime; the fastest operation of a product",
		LeavesOut: "operations that did not pass, other kinds than gemm, slower operations",
		starts:    columns("problem", "provider", "operationkind", "disposition"), read: readCUTLASS,
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
		Name: "onednn-verbose", Library: "onednn", Command: "ONEDNN_VERBOSE=1 PROGRAM > FILE", Timed: true,
		Reads:     "matmul and inner_product: sizes, types, layout, implementation, time of each call",
		LeavesOut: "other primitives, transposed activations",
		starts:    lines("onednn_verbose,", "dnnl_verbose,"), read: readOneDNN,
	},
	{
		Name: "cublaslt-log", Library: "cublaslt", Command: "CUBLASLT_LOG_LEVEL=5 CUBLASLT_LOG_FILE=FILE PROGRAM",
		Reads:     "products of cublasLtMatmul, how often each was called",
		LeavesOut: "transposed activations, row-major matrices, padded rows",
		starts:    func(h head) bool { return h.contains("[cublasLt]") }, read: readCuBLASLt,
	},
	{
		Name: "cublas-log", Library: "cublas", Command: "CUBLAS_LOGINFO_DBG=1 CUBLAS_LOGDEST_DBG=FILE PROGRAM",
		Reads:     "products of cublas*gemm*, how often each was called",
		LeavesOut: "complex and double products, transposed activations, padded rows",
		starts:    lines("I! cuBLAS (v"), read: readCuBLAS,
	},
	{
		Name: "rocm-log", Command: "ROCBLAS_LAYER=2 (or 4) or HIPBLASLT_LOG_MASK=32 with PROGRAM 2> FILE",
		Reads:     "products of rocblas-bench and hipblaslt-bench command lines and of rocBLAS's profile, how often each was called",
		LeavesOut: "other functions, transposed activations, padded rows, grouped products",
		starts: matches(func(line string) bool {
			values, _ := benchCommand(line)
			return values != nil || flowMap(line) != nil
		}), read: readROCmLog,
	},
	{
		Name: "mkl-verbose", Command: "MKL_VERBOSE=1 PROGRAM > FILE", Timed: true,
		Reads:     "SGEMM and gemm of bf16 and fp16: sizes, layout, time of each call",
		LeavesOut: "functions other than gemm, transposed activations, padded rows",
		starts:    lines("MKL_VERBOSE "), read: readMKL,
	},
	{
		Name: "test-backend-ops", Command: "llama.cpp's test-backend-ops perf -o MUL_MAT > FILE", Timed: true,
		Reads:     "MUL_MAT of fp32, fp16 and bf16 weights: sizes, time, the device's description",
		LeavesOut: "quantized weights, experts, batches",
		starts:    matches(llamaLine.MatchString), read: readLlamaBench,
	},
	{
		Name: "deepgemm", Command: "DeepGEMM's tests/test_fp8.py > FILE", Timed: true,
		Reads:     "m, n, k, whole microseconds",
		LeavesOut: "grouped products, layouts other than NT",
		starts:    matches(deepLine.MatchString), read: readDeepGEMM,
	},
	{
		Name: "benchdnn", Command: "benchdnn --mode=P --matmul … > FILE", Timed: true,
		Reads:     "matmul and inner product: sizes, types, layout, implementation; mean time, else the shortest",
		LeavesOut: "other drivers, mixed types, transposed activations",
		starts:    lines(dnnMark), read: readBenchDNN,
	},
	{
		Name: "tritonbench", Command: "python run.py --op gemm --metrics latency --output FILE", Timed: true,
		Reads:     "(M, N, K) and the latency of each implementation",
		LeavesOut: "other operators, implementations that failed",
		starts:    isTriton, read: readTriton,
	},
	{
		Name: "torch-compare", Command: "print(torch.utils.benchmark.Compare(measurements))", Timed: true,
		Reads:     "cells whose label, sub_label or description names m=, n= and k=; the type if one is named",
		LeavesOut: "cells whose labels do not name m, n and k",
		starts:    isCompare, read: readCompare,
	},
	{
		Name: "pytorch-profile", Command: "print(prof.key_averages(group_by_input_shape=True).table(row_limit=-1))",
		Reads:     "aten::mm, addmm, bmm, baddbmm, _scaled_mm, _int_mm: shapes, how often each was called; types are not in it",
		LeavesOut: "shapes that are cut short; a table without shapes",
		starts:    matches(profileHeader), read: readProfile,
	},
	{
		Name: "nsys-kernels", Command: "nsys stats --report cuda_gpu_kern_sum --format csv FILE.nsys-rep",
		Reads: "no products: it has kernel names and times, but no shapes",
		Refused: "it has the names and times of kernels and no shapes: record the shapes with CUBLAS_LOGINFO_DBG=1 " +
			"CUBLAS_LOGDEST_DBG=FILE or CUBLASLT_LOG_LEVEL=5 CUBLASLT_LOG_FILE=FILE, or with torch.profiler and record_shapes=True",
		starts: func(h head) bool {
			return h.hasColumns("time (%)", "instances", "name") || h.hasColumns("time(%)", "instances", "name")
		},
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
		starts:    head.shapes, read: readShapes,
	},
}
