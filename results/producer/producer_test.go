package producer

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// inputs are outputs of the programs, at least two of each, and the expected rows.
var inputs = []struct {
	name, format, text string
	want               []string
}{
	{"cutlass by rows", "cutlass_profiler", `
CSV Results:

Problem,Provider,OperationKind,Operation,Disposition,Status,gemm_kind,m,n,k,A,B,C,D,alpha,beta,split_k_slices,batch_count,op_class,accum,` +
		`Bytes,Flops,Flops/Byte,Runtime,GB/s,GFLOPs
1,CUTLASS,gemm,slow,passed,success,universal,16,4096,1024,bf16:row,bf16:column,bf16:row,bf16:row,1,0,1,1,tensorop,f32,1,1,1,0.0300,1,1
1,CUTLASS,gemm,quick,not_verified,success,universal,16,4096,1024,bf16:row,bf16:column,bf16:row,bf16:row,1,0,1,1,tensorop,f32,1,1,1,` +
		`0.0200,1,1
1,CUTLASS,gemm,wrong,incorrect,success,universal,16,4096,1024,bf16:row,bf16:column,bf16:row,bf16:row,1,0,1,1,tensorop,f32,1,1,1,0.0100,1,1
1,CUTLASS,gemm,batched,passed,success,universal,16,64,32,f16:row,f16:row,f16:row,f16:row,1,0,1,8,tensorop,f32,1,1,1,0.0100,1,1
`, []string{"5 out", "6 cutlass bf16 n4096 k1024 nk m16 20us", "7 out", "8 cutlass fp16 n64 k32 x8 m16 10us"}},
	{"cutlass by columns", "cutlass_profiler",
		`Problem,Provider,OperationKind,Operation,Disposition,Status,gemm_kind,m,n,k,A,B,C,alpha,beta,batch_count,Runtime,GFLOPs
1,CUTLASS,gemm,a,passed,success,universal,4096,16,1024,f32:row,f32:column,f32:column,1,0,1,0.5,1
1,CUTLASS,gemm,s1688tf32gemm,passed,success,universal,4096,32,1024,f32:column,f32:column,f32:column,1,0,1,0.5,1
1,CUTLASS,gemm,b,passed,success,universal,4096,16,1024,f32:column,f32:row,f32:column,1,0,1,0.5,1
1,CUTLASS,gemm,c,passed,success,grouped,4096,16,1024,f32:row,f32:column,f32:column,1,0,1,0.5,1
1,CUTLASS,conv2d,d,passed,success,fprop,4096,16,1024,f32:row,f32:column,f32:column,1,0,1,0.5,1
`, []string{"2 cutlass fp32 n4096 k1024 nk m16 500us", "3 cutlass tf32 n4096 k1024 m32 500us", "4 out", "5 out", "6 out"}},
	{"onednn v1", "onednn-verbose", `onednn_verbose,v1,info,oneDNN v3.7.3 (commit N/A)
onednn_verbose,v1,primitive,info,template:operation,engine,primitive,implementation,prop_kind,memory_descriptors,attributes,auxiliary,` +
		`problem_desc,exec_time
onednn_verbose,v1,primitive,exec,cpu,matmul,brg_matmul:avx10_1_512_amx,undef,src:bf16::blocked:ab::f0 wei:bf16::blocked:ba::f0 ` +
		`dst:bf16::blocked:ab::f0,attr-scratchpad:user,,128x3584:3584x37888,1.25
onednn_verbose,v1,primitive,exec,cpu,reorder,jit:uni,undef,src:f32::blocked:ab::f0 dst:bf16::blocked:ab::f0,,,128x3584,0.2
onednn_verbose,v1,primitive,exec,cpu,matmul,brg,undef,src:f32::blocked:abc::f0 wei:f32::blocked:abc::f0 ` +
		`dst:f32::blocked:abc::f0,,,4x16x32:4x32x64,0.5
onednn_verbose,v1,primitive,exec,cpu,matmul,brg,undef,src:f32::blocked:abc::f0 wei:f32::blocked:abc::f0 ` +
		`dst:f32::blocked:abc::f0,,,4x16x32:1x32x64,0.5
onednn_verbose,v1,primitive,exec,cpu,matmul,brg,undef,src:f32::blocked:ba::f0 wei:f32::blocked:ab::f0 ` +
		`dst:f32::blocked:ab::f0,,,16x32:32x64,0.5
`, []string{"3 onednn bf16 n37888 k3584 nk m128 1250us", "4 out", "5 onednn fp32 n64 k32 x4 m16 500us", "6 onednn fp32 n64 k32 m64 500us",
		"7 out"}},
	{"onednn v0", "onednn-verbose", `some program says
dnnl_verbose,exec,cpu,matmul,gemm:jit,undef,src_f32::blocked:ab:f0 wei_f32::blocked:ab:f0 dst_f32::blocked:ab:f0,,,3x2:2x4:3x4,0.01
dnnl_verbose,exec,cpu,inner_product,gemm:jit,forward_inference,src_f32::blocked:ab:f0 wei_f32::blocked:ab:f0 ` +
		`dst_f32::blocked:ab:f0,,,mb16ic4096oc512,2
`, []string{"2 onednn fp32 n4 k2 m3 10us", "3 onednn fp32 n512 k4096 nk m16 2000us"}},
	{"rocblas log", "rocm-log", `some program says
./rocblas-bench -f gemm_ex --transposeA T --transposeB N -m 8192 -n 16 -k 3072 --alpha 1 --a_type bf16_r --lda 3072 --b_type bf16_r ` +
		`--ldb 3072 --beta 0 --c_type bf16_r --ldc 8192 --d_type bf16_r --ldd 8192 --compute_type f32_r
  12 /opt/rocm/bin/rocblas-bench -f gemm -r f32_r --transposeA N --transposeB N -m 64 -n 16 -k 32 --alpha 1 --lda 64 --ldb 32 --beta 0 ` +
		`--ldc 64
./rocblas-bench -f trsm -r f32_r -m 64 -n 16
./rocblas-bench -f gemm_ex --transposeA T --transposeB T -m 8192 -n 16 -k 3072 --a_type bf16_r
./rocblas-bench -f gemm_ex --transposeA T -m x -n 16 -k 3072 --a_type h
hipblaslt-bench --api_method c -m 4096 -n 32 -k 4096 --lda 4096 --ldb 4096 --ldc 4096 --transA T --transB N --batch_count 1 --a_type ` +
		`f16_r --b_type f16_r --c_type f32_r --d_type f32_r
`, []string{"2 rocblas bf16 n8192 k3072 nk m16", "3 rocblas fp32 n64 k32 m16 12 calls", "4 out", "5 out", "6 out",
		"7 hipblaslt fp16 n4096 k4096 nk m32"}},
	{"rocblas profile", "rocm-log",
		`- { rocblas_function: "rocblas_gemm_ex", atomics_mode: atomics_allowed, a_type: "f16_r", b_type: "f16_r", c_type: "f16_r", ` +
			`d_type: "f16_r", transA: 'T', transB: 'N', M: 4096, N: 16, K: 4096, alpha: 1, lda: 4096, ldb: 4096, beta: 0, ldc: 4096, ` +
			`call_count: 32 }
- { rocblas_function: "rocblas_sgemm", transA: 'N', transB: 'N', M: 64, N: 16, K: 32, alpha: 1, lda: 64, ldb: 32, beta: 0, ldc: 64, ` +
			`call_count: 3 }
- { rocblas_function: "rocblas_dgemm", transA: 'N', transB: 'N', M: 64, N: 16, K: 32, call_count: 3 }
`, []string{"1 rocblas fp16 n4096 k4096 nk m16 32 calls", "2 rocblas fp32 n64 k32 m16 3 calls", "3 out"}},
	{"mkl", "mkl-verbose",
		`MKL_VERBOSE oneMKL 2024.0 Update 2 Product build 20240605 for Intel(R) 64 architecture, Lnx 2.10GHz lp64 intel_thread
MKL_VERBOSE SGEMM(T,N,4096,16,1024,0x7ffd1,0x7f1,1024,0x7f2,1024,0x7ffd2,0x7f3,4096) 1.20ms CNR:OFF Dyn:1 FastMM:1 TID:0  NThr:16
MKL_VERBOSE SGEMM(N,N,10,128,20,0x7f3,0x7f3,10,0x7f3,20,0x7f3,0x7f3,10) 41.32us CNR:OFF Dyn:1 FastMM:1 TID:0  NThr:50 WDiv:HOST:+0.000
MKL_VERBOSE DGEMM(N,N,64,64,64,0x7,0x7,64,0x7,64,0x7,0x7,64) 2.91ms CNR:OFF
MKL_VERBOSE SGEMM(N,N,64,64) 2.91ms CNR:OFF
`, []string{"2 mkl fp32 n4096 k1024 nk m16 1200us", "3 mkl fp32 n10 k20 m128 41.32us", "4 out", "5 out"}},
	{"llama.cpp", "test-backend-ops", `Testing 2 devices
Backend 1/2: CUDA0
  Device description: NVIDIA GeForce RTX 4090
  MUL_MAT(type_a=f16,type_b=f32,m=4096,n=2,k=14336,bs=[1,1],nr=[1,1],per=[0,1,2,3],v=0,o=1):    6816 runs -   147.30 us/run - 117.44 ` +
		`MFLOP/run - 797.29 GFLOPS
  MUL_MAT(type_a=q4_0,type_b=f32,m=4096,n=512,k=14336,bs=[1,1],nr=[1,1],per=[0,1,2,3],v=0):    60 runs - 16888.25 us/run -  60.13 ` +
		`GFLOP/run -   3.56 TFLOPS
  MUL_MAT(type_a=f16,type_b=f32,m=16416,n=1,k=128,bs=[8,1],nr=[4,1],per=[0,2,1,3],v=0):    2732 runs -   413.23 us/run -    24576 kB/run ` +
		`-   28.37 GB/s
  MUL_MAT(type_a=bf16,type_b=f32,m=4096,n=1,k=14336,bs=[1,1],nr=[1,1],per=[0,1,2,3]): not supported
`, []string{"4 ggml fp16 n4096 k14336 nk m2 147.3us", "5 out", "6 out"}},
	{"deepgemm", "deepgemm", `Testing GEMM:
 > Perf (m=   64, n= 2112, k= 7168, 1D2D, layout=NT, BF16, acc=0): launch 20 us | 9 us |  206 TFLOPS | 1830 GB/s
 > Perf (num_groups=4, m= 8192, n= 4096, k= 7168, layout=NT): 600 us | 1500 TFLOPS | 500 GB/s
 > Performance (m=  128, n= 2112, k= 7168): 10 us | throughput:  390 TFLOPS, 1900 GB/s
 > Perf (m=  128, n= 2112, k= 7168, layout=TN): 10 us | 390 TFLOPS
`, []string{"2 deepgemm  n2112 k7168 nk m64 9us", "3 out", "4 deepgemm  n2112 k7168 nk m128 10us", "5 out"}},
	{"cublaslt", "cublaslt-log", `[2026-03-01 10:00:00][cublasLt][1][Api][cublasLtMatmulAlgoGetHeuristic] A
[2026-03-01 10:00:00][cublasLt][1][Trace][cublasLtMatmul] A=0X7F1 Adesc=[type=R_16BF rows=4096 cols=6144 ld=4096] B=0X7F2 ` +
		`Bdesc=[type=R_16BF rows=4096 cols=16 ld=4096] C=0X7F3 Cdesc=[type=R_16BF rows=6144 cols=16 ld=6144] ` +
		`computeDesc=[computeType=COMPUTE_32F scaleType=R_32F transa=OP_T]
[2026-03-01 10:00:00][cublasLt][1][Trace][cublasLtMatmul] A=0X7F1 Adesc=[type=R_8F_E4M3 rows=64 cols=1088 ld=64] B=0X7F2 ` +
		`Bdesc=[type=R_8F_E4M3 rows=128 cols=1088 ld=128] C=0X0 Cdesc=[type=R_16BF rows=64 cols=128 ld=64] D=0X7 Ddesc=[type=R_16BF ` +
		`rows=64 cols=128 ld=64] computeDesc=[computeType=COMPUTE_32F scaleType=R_32F transb=OP_T]
`, []string{"2 cublaslt bf16 n6144 k4096 nk m16", "3 out"}},
	{"cublaslt batches", "cublaslt-log",
		`[t][cublasLt][8][Trace][cublasLtMatmul] A=0X1 Adesc=[type=R_32F rows=32 cols=16 ld=32 batchCount=4 stride=512] B=0X2 ` +
			`Bdesc=[type=R_32F rows=16 cols=64 ld=16 batchCount=4 stride=1024] C=0X3 Cdesc=[type=R_32F rows=32 cols=64 ld=32 ` +
			`batchCount=4] D=0X3 Ddesc=[type=R_32F rows=32 cols=64 ld=32] computeDesc=[computeType=COMPUTE_32F_FAST_TF32 ` +
			`scaleType=R_32F] algo=[algoId=21]
[t][cublasLt][8][Trace][cublasLtMatmul] A=0X1 Adesc=[type=R_32F rows=32 cols=16 ld=40] B=0X2 Bdesc=[type=R_32F rows=16 cols=64 ld=16] ` +
			`C=0X3 Cdesc=[type=R_32F rows=32 cols=64 ld=32] computeDesc=[computeType=COMPUTE_32F]
`, []string{"1 cublaslt tf32 n32 k16 x4 m64", "2 out"}},
	{"cublas gemmex", "cublas-log", `I! cuBLAS (v12.4) function cublasStatus_t cublasCreate_v2(cublasContext**) called:
i!  handle: type=cublasHandle_t; val=POINTER (IN HEX:0x0x2d3af900)
I! cuBLAS (v12.4) function cublasStatus_t cublasGemmEx(cublasHandle_t, int) called:
i!  transa: type=cublasOperation_t; val=CUBLAS_OP_T(1)
i!  transb: type=cublasOperation_t; val=CUBLAS_OP_N(0)
i!  m: type=int; val=4096
i!  n: type=int; val=16
i!  k: type=int; val=1024
i!  Atype: type=cudaDataType_t; val=CUDA_R_16BF(14)
i!  lda: type=int; val=1024
i!  Btype: type=cudaDataType_t; val=CUDA_R_16BF(14)
i!  ldb: type=int; val=1024
i!  Ctype: type=cudaDataType_t; val=CUDA_R_16BF(14)
i!  ldc: type=int; val=4096
i!  computeType: type=cublasComputeType_t; val=CUBLAS_COMPUTE_32F(68)
i! Time: 2026-09-11T18:38:49
`, []string{"3 cublas bf16 n4096 k1024 nk m16"}},
	{"cublas by letter", "cublas-log", `I! cuBLAS (v13.4.1) function cublasStatus_t cublasSgemm_v2(cublasHandle_t, int) called:
i!  transa: type=cublasOperation_t; val=CUBLAS_OP_N(0)
i!  transb: type=cublasOperation_t; val=CUBLAS_OP_N(0)
i!  m: type=int; val=20
i!  n: type=int; val=3
i!  k: type=int; val=5
i!Process=1; Thread=1; GPU=0; MathMode=CUBLAS_TF32_TENSOR_OP_MATH
I! cuBLAS (v13.4.1) function cublasStatus_t cublasDgemm_v2(cublasHandle_t, int) called:
I! cuBLAS (v13.4.1) function cublasStatus_t cublasSgemmStridedBatched(cublasHandle_t, int) called:
i!  transa: type=cublasOperation_t; val=CUBLAS_OP_N(0)
i!  transb: type=cublasOperation_t; val=CUBLAS_OP_N(0)
i!  m: type=int; val=20
i!  n: type=int; val=3
i!  k: type=int; val=5
i!  batchCount: type=int; val=7
`, []string{"1 cublas tf32 n20 k5 m3", "8 out", "9 cublas fp32 n20 k5 x7 m3"}},
	{"trace", "pytorch-trace", `{"schemaVersion": 1, "deviceProperties": [{"id": 0, "name": "H100"}], "traceEvents": [
{"ph": "X", "cat": "cpu_op", "name": "aten::linear", "args": {"Input Dims": [[16, 1024], [4096, 1024], []], "Input type": ` +
		`["c10::BFloat16", "c10::BFloat16", ""]}},
{"ph": "X", "cat": "cpu_op", "name": "aten::mm", "args": {"Input Dims": [[16, 1024], [1024, 4096]], "Input Strides": [[1024, 1], [1, ` +
		`1024]], "Input type": ["c10::BFloat16", "c10::BFloat16"]}},
{"ph": "X", "cat": "cpu_op", "name": "aten::addmm", "args": {"Input Dims": [[512], [8, 1408], [1408, 512], [], []], "Input Strides": ` +
		`[[1], [1408, 1], [512, 1], [], []], "Input type": ["float", "float", "float", "Scalar", "Scalar"], "Concrete Inputs": ["", "", ` +
		`"", "1", "1"]}},
{"ph": "X", "cat": "cpu_op", "name": "aten::mm", "args": {"External id": 4}},
{"ph": "M", "name": 7}
], "traceName": "x"}`, []string{"2 pytorch bf16 n4096 k1024 nk m16", "3 pytorch fp32 n512 k1408 m8", "4 out"}},
	{"trace of batches", "pytorch-trace",
		`{"traceEvents":[{"name":"aten::bmm","args":{"Input Dims":[[32,16,64],[32,64,128]],"Input type":["c10::Half","c10::Half"]}},
{"name":"aten::baddbmm","args":{"Input Dims":[[2,16,128],[2,16,64],[2,64,128]],"Input Strides":[[1,1,1],[1024,1,16],[8192,128,1]],"Input ` +
			`type":["c10::Half","c10::Half","c10::Half"]}},
{"name":"aten::_scaled_mm","args":{"Input Dims":[[16,64],[64,128]],"Input type":["c10::Float8_e4m3fn","c10::Float8_e4m3fn"]}},
{"name":"aten::mm","args":{"Input Dims":[[0,64],[64,128]],"Input type":["double","double"]}}]}`,
		[]string{"1 pytorch fp16 n128 k64 x32 nk m16", "2 out", "3 pytorch fp8 n128 k64 nk m16", "4 out"}},
	{"tuned", "tunableop", `Validator,PT_VERSION,2.15.0
GemmTunableOp_BFloat16_TN,tn_4096_16_14336_ld_14336_14336_4096,Gemm_Hipblaslt_5,0.125
GemmTunableOp_BFloat16_TN,tn_4096_17_14336_ld_14336_14336_4096,Default
GemmTunableOp_BFloat16_TN,tn_4096_18_14336_ld_14336_14336_4096,Default,1e300
`, []string{"2 pytorch-tunableop bf16 n4096 k14336 nk m16 125us", "3 pytorch-tunableop bf16 n4096 k14336 nk m17", "4 out"}},
	{"untuned", "tunableop-untuned", `GemmAndBiasTunableOp_float_NN,nn_8_3_32_ld_8_32_8
GemmStridedBatchedTunableOp_BFloat16_TN,tn_8_3_32_B_4_ld_32_32_8
GemmTunableOp_nonsense
`, []string{"1 pytorch-tunableop+bias fp32 n8 k32 m3", "2 out", "3 out"}},
	{"aiconfigurator", "aiconfigurator", `framework,version,device,op_name,kernel_source,gemm_dtype,m,n,k,latency
TRTLLM,1.0.0,NVIDIA B200,gemm,torch_flow,bfloat16,256,4096,1024,0.012
TRTLLM,1.0.0,NVIDIA B200,gemm,deepgemm,fp8_block,256,4096,1024,0.009
TRTLLM,1.0.0,NVIDIA B200,gemm,torch_flow,nvfp4,256,4096,1024,0.005
TRTLLM,1.0.0,NVIDIA B200,gemm,torch_flow,mxfp8,256,4096,1024,0.006
TRTLLM,1.0.0,NVIDIA B200,gemm,torch_flow,w4a8,256,4096,1024,0.005
`, []string{"2 torch_flow bf16 n4096 k1024 nk m256 12us",
		"3 deepgemm fp8 n4096 k1024 nk weights fp8 g128x128 fp32 m256 9us",
		"4 torch_flow fp4 n4096 k1024 nk weights nvfp4 g16x1 fp8 m256 5us",
		"5 torch_flow fp8 n4096 k1024 nk weights mxfp8 g32x1 e8m0 m256 6us", "6 out"}},
	{"experts", "aiconfigurator",
		`framework,version,device,op_name,kernel_source,moe_dtype,num_tokens,hidden_size,inter_size,topk,num_experts,moe_tp_size,` +
			`moe_ep_size,distribution,latency
VLLM,0.20.1,test,moe,vllm_moe,bfloat16,1,4096,2048,6,256,1,1,power_law_1.2,0.1
`, []string{"2 out"}},
	{"rocblas batches", "rocblas-bench",
		`transA,transB,M,N,K,alpha,lda,stride_a,ldb,stride_b,beta,ldc,stride_c,batch_count,rocblas-Gflops,us
N,N,64,16,32,1,64,2048,32,512,0,64,1024,8,100,5
N,N,64,16,32,1,64,0,32,512,0,64,1024,8,100,5
N,T,64,16,32,1,64,0,16,512,0,64,1024,1,100,5
`, []string{"2 rocblas  n64 k32 x8 m16 5us", "3 out", "4 out"}},
	{"hipblaslt early", "hipblaslt-bench",
		`[0]transA,transB,grouped_gemm,batch_count,m,n,k,alpha,lda,stride_a,beta,ldb,stride_b,ldc,stride_c,ldd,stride_d,d_type,` +
			`compute_type,activation_type,bias_vector,hipblaslt-Gflops,us
N,N,0,1,896,448,896,1,896,802816,0,896,802816,896,802816,896,802816,fp16_r,f32_r,none,0, 58624.5, 24.5
`, []string{"2 hipblaslt fp16 n896 k896 m448 24.5us"}},
	{"hipblaslt xf32", "hipblaslt-bench",
		`transA,transB,grouped_gemm,batch_count,m,n,k,lda,ldb,ldc,ldd,a_type,b_type,c_type,d_type,compute_type,hipblaslt-Gflops,us
T,N,0,1,896,448,64,64,64,896,896,f32_r,f32_r,f32_r,f32_r,xf32_r,1,24.5
T,N,0,1,896,448,64,64,64,896,896,bf8_r,bf8_r,f32_r,f32_r,f32_r,1,24.5
T,N,0,1,896,448,64
`, []string{"2 hipblaslt tf32 n896 k64 nk m448 24.5us", "3 out", "4 out"}},
	{"nvbench", "nvbench", `Device,Device Name,Benchmark,Skipped,Skip Reason,M,N,K,Batch,Samples,CPU Time (sec),Noise,Batch GPU (sec),Noise
0,A100,bmm,No,,16,64,32,4,10,3e-05,1%,2e-05,1%
`, []string{"2 bmm  n64 k32 x4 m16 20us"}},
	{"benchdnn", "benchdnn", `Output template: perf,%engine%,%impl%,%name%,%prb%,%Gops%,%Gfreq%,%-time%,%-Gflops%,%0time%,%0Gflops%
perf,cpu,brg_matmul:avx512_core_amx,,--mode=P --matmul --dt=bf16:bf16:bf16 --stag=ab --wtag=ba --dtag=ab ` +
		`128x3584:3584x37888,34.7,0,1.1,1,1.25,1
perf,cpu,brg_matmul:avx512_core,"a,b",--mode=P --matmul --bia_dt=f32 --attr-post-ops=relu 16x32:32x64n"a,b",1,0,0.001,1,0.002,1
perf,cpu,brg_matmul:avx512_core,,--mode=P --matmul --dt=u8:s8:s32 16x32:32x64,1,0,0.001,1,0.002,1
perf,cpu,jit:avx512_core,"resnet:ip1",--mode=P --ip --dir=FWD_B mb112ic2048oc1000n"resnet:ip1",0.458752,0,0.521729,879.293,0.576451,795.822
perf,cpu,jit,,--mode=P --conv g1mb1ic3ih227oc96oh55kh11,1,0,1,1,1,1
tests:5 passed:5 skipped:0 mistrusted:0 unimplemented:0 invalid_arguments:0 failed:0 listed:0
total perf: min(ms):1.6 avg(ms):1.8
`, []string{"2 onednn bf16 n37888 k3584 nk m128 1250us", "3 onednn+bias+post-ops fp32 n64 k32 m16 2us", "4 out",
		"5 onednn fp32 n1000 k2048 nk m112 576.451us", "6 out"}},
	{"benchdnn of one's own", "benchdnn", `Output template: %prb%;%-time%
--matmul --cfg=bf16bf16f32 --wtag=ab 4x16x32:4x32x64;0.5
--matmul --stag=ba 16x32:32x64;0.5
--matmul 16x32:32x64;failed
Output template: perf,%engine%,%name%,%dir%,%cfg%,%attr%,%desc%,%Gops%,%Gfreq%,%-time%,%-Gflops%,%0time%,%0Gflops%
perf,cpu,"",FWD_B,f32,,16x32:32x64,0.458752,0,0.520264,881.768,0.564043,813.328
`, []string{"2 onednn bf16 n64 k32 x4 m16 500us", "3 out", "4 out", "6 onednn fp32 n64 k32 m16 564.043us"}},
	{"tritonbench", "tritonbench", `(M, N, K);aten_matmul-latency;triton_tutorial_matmul-latency;triton_tutorial_matmul-speedup
(8192, 8192, 1024);0.25;0.5;0.5
(16, 4096, 512);0.0125;CUDA out of memory;
average;0.13;0.5;0.5
`, []string{"2 aten_matmul  n8192 k1024 nk m8192 250us", "2 triton_tutorial_matmul  n8192 k1024 nk m8192 500us",
		"3 aten_matmul  n4096 k512 nk m16 12.5us", "3 out"}},
	{"tritonbench of another operator", "tritonbench", `(B, M);torch_softmax-latency;torch_softmax-gbps
"(16, 4096)";0.25;0.5
`, []string{"2 out"}},
	{"compare", "torch-compare", `[---------------------------- GEMM ----------------------------]
                               |  cublas  |  triton (bf16)
1 threads: -----------------------------------------------------
      m=16 n=4096 k=1024 bf16  |    8.0   |      12.5 (! 14%)
      softmax                  |    7.0   |
4 threads: -----------------------------------------------------
      m=16 n=4096 k=1024 bf16  |   10.0   |

Times are in microseconds (us).
(! XX%) Measurement has high variance, where XX is the IQR / median * 100.
`, []string{"4 cublas bf16 n4096 k1024 nk m16 8us", "4 triton bf16 n4096 k1024 nk m16 12.5us", "5 out",
		"7 cublas+4threads bf16 n4096 k1024 nk m16 10us"}},
	{"compare with sizes in columns", "torch-compare", "[----------- mm fp16, N=64, K=32 -----------]\n" +
		"           |  M=1  |  M=2\n1 threads: ---------\n      eager  |  \x1b[92m\x1b[1m 1.5 \x1b[0m\x1b[0m  |  2.5\n\n" +
		"Times are in milliseconds (ms).\n",
		[]string{"4 eager fp16 n64 k32 nk m1 1500us", "4 eager fp16 n64 k32 nk m2 2500us"}},
	{"profile", "pytorch-profile",
		`----------------  ------------  ------------  ------------  --------------------------------------------  
            Name    Self CPU %      Self CPU    # of Calls                                  Input Shapes  
----------------  ------------  ------------  ------------  --------------------------------------------  
    aten::linear         1.00%       1.000us            32                [[16, 1024], [4096, 1024], []]  
     aten::addmm        90.00%     100.000us            32    [[4096], [16, 1024], [1024, 4096], [], []]  
        aten::mm         1.00%       1.000us             2                       [[8, 512], [512, 1408]]  
        aten::mm         1.00%       1.000us             2                         [[8, 512], [512, 1408  
       aten::bmm         1.00%       1.000us             x                     [[4, 8, 16], [4, 16, 32]]  
----------------  ------------  ------------  ------------  --------------------------------------------  
Self CPU time total: 1.000ms
`, []string{"5 pytorch  n4096 k1024 nk m16 32 calls", "6 pytorch  n1408 k512 nk m8 2 calls", "7 out", "8 out"}},
	{"profile on a GPU", "pytorch-profile", `STAGE:2026-01-01 ActivityProfilerController.cpp:314] Completed Stage: Warm Up
---------------  ------------  ------------  ------------  -----------------------------  ------------  
           Name    Self CPU %     Self CUDA    # of Calls                   Input Shapes  Total GFLOPs  
---------------  ------------  ------------  ------------  -----------------------------  ------------  
      aten::bmm         1.00%       1.000us             7      [[4, 8, 16], [4, 16, 32]]         0.001  
    ampere_gemm         0.00%       0.000us             1                             []            --  
---------------  ------------  ------------  ------------  -----------------------------  ------------  
`, []string{"5 pytorch  n32 k16 x4 nk m8 7 calls"}},
	{"shapes", "shapes", "M,N,K,dtype,calls\n16,64,32,torch.bfloat16,12\n1,2,x,bf16,1\n",
		[]string{"2  bf16 n64 k32 nk m16 12 calls", "3 out"}},
}

func text(r Row) string {
	if r.Out != "" {
		return fmt.Sprintf("%d out", r.Line)
	}
	s := fmt.Sprintf("%d %s %s %s", r.Line, r.Kernel, r.Subject.DType, r.Subject.Size())
	if l := r.Subject.Layout.String(); l == "nk" {
		s += " " + l
	}
	if r.Subject.Quantized() {
		s += " weights " + r.Subject.Weights.String()
	}
	s += fmt.Sprintf(" m%d", r.M)
	if r.US > 0 {
		s += fmt.Sprintf(" %.6gus", r.US)
	}
	if r.Calls > 1 {
		s += fmt.Sprintf(" %d calls", r.Calls)
	}
	return s
}

func TestRead(t *testing.T) {
	seen := map[string]bool{}
	for _, tt := range inputs {
		t.Run(tt.name, func(t *testing.T) {
			f := Recognize([]byte(tt.text))
			if f == nil || f.Name != tt.format {
				t.Fatalf("recognized as %+v", f)
			}
			seen[f.Name] = true
			var got []string
			if err := f.Read(strings.NewReader("\ufeff"+tt.text),
				func(r Row) error { got = append(got, text(r)); return nil }); err != nil && tt.format != "pytorch-trace" {
				t.Fatal(err)
			} else if err != nil {
				got = nil
				if err := f.Read(strings.NewReader(tt.text), func(r Row) error { got = append(got, text(r)); return nil }); err != nil {
					t.Fatal(err)
				}
			}
			if d := cmp.Diff(tt.want, got); d != "" {
				t.Error(d)
			}
		})
	}
	for _, f := range Formats {
		if !seen[f.Name] && f.Refused == "" {
			t.Errorf("no input of %s", f.Name)
		}
	}
}

func TestRecognizeOthers(t *testing.T) {
	for _, s := range []string{"", "poem\nof two lines", "device,kernel,dtype,m,n,k,round,us\n", "m,n,k,ms\n1,2,3,4\n",
		"batch,kernel_time\n1,2\n", `{"a": 1}`, "SQLite format 3\x00"} {
		if f := Recognize([]byte(s)); f != nil {
			t.Errorf("%q is recognized as %s", s, f.Name)
		}
	}
}

// The reason must name what to record instead.
func TestRefused(t *testing.T) {
	none := func(Row) error { return nil }
	for _, c := range []struct{ name, format, text, reason string }{
		{"nsys", "nsys-kernels",
			"Generating SQLite file a.sqlite from a.nsys-rep\n" +
				"Time (%),Total Time (ns),Instances,Avg (ns),Med (ns),Min (ns),Max (ns),StdDev (ns),Name\n" +
				"100.0,28918591,5,5783718.2,5780070.0,5777126,5797542,8313.1,\"gemm(float *, int, int)\"\n", "CUBLASLT_LOG_LEVEL=5"},
		{"nsys early", "nsys-kernels", "Time(%),Total Time (ns),Instances,Average,Minimum,Maximum,Name\n100.0,1,5,1,1,1,gemm\n",
			"no shapes"},
		{"profile without shapes", "pytorch-profile",
			"-------- ----------  ----------\n  Name  Self CPU %  # of Calls\n-------- ----------  ----------\naten::mm 1.00%  3\n",
			"group_by_input_shape=True"},
	} {
		f := Recognize([]byte(c.text))
		if f == nil || f.Name != c.format {
			t.Errorf("%s: recognized as %+v", c.name, f)
		} else if err := f.Read(strings.NewReader(c.text), none); err == nil || !strings.Contains(err.Error(), c.reason) {
			t.Errorf("%s: %v, expected %q", c.name, err, c.reason)
		}
	}
}

func FuzzRecognize(f *testing.F) {
	for _, in := range inputs {
		f.Add(in.text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		Recognize([]byte(text))
		RecognizeShapes([]byte(text))
	})
}

func FuzzHipBLASLt(f *testing.F)        { fuzz(f, "hipblaslt-bench") }
func FuzzRocBLAS(f *testing.F)          { fuzz(f, "rocblas-bench") }
func FuzzNVBench(f *testing.F)          { fuzz(f, "nvbench") }
func FuzzCUTLASS(f *testing.F)          { fuzz(f, "cutlass_profiler") }
func FuzzTunableOp(f *testing.F)        { fuzz(f, "tunableop") }
func FuzzTunableOpUntuned(f *testing.F) { fuzz(f, "tunableop-untuned") }
func FuzzOneDNN(f *testing.F)           { fuzz(f, "onednn-verbose") }
func FuzzCuBLASLt(f *testing.F)         { fuzz(f, "cublaslt-log") }
func FuzzCuBLAS(f *testing.F)           { fuzz(f, "cublas-log") }
func FuzzROCmLog(f *testing.F)          { fuzz(f, "rocm-log") }
func FuzzMKL(f *testing.F)              { fuzz(f, "mkl-verbose") }
func FuzzLlamaBench(f *testing.F)       { fuzz(f, "test-backend-ops") }
func FuzzDeepGEMM(f *testing.F)         { fuzz(f, "deepgemm") }
func FuzzTrace(f *testing.F)            { fuzz(f, "pytorch-trace") }
func FuzzAIConfigurator(f *testing.F)   { fuzz(f, "aiconfigurator") }
func FuzzBenchDNN(f *testing.F)         { fuzz(f, "benchdnn") }
func FuzzTriton(f *testing.F)           { fuzz(f, "tritonbench") }
func FuzzCompare(f *testing.F)          { fuzz(f, "torch-compare") }
func FuzzProfile(f *testing.F)          { fuzz(f, "pytorch-profile") }
func FuzzShapes(f *testing.F)           { fuzz(f, "shapes") }

// fuzz reads a format: rows not skipped must be valid products.
func fuzz(f *testing.F, name string) {
	format := &Formats[slices.IndexFunc(Formats, func(x Format) bool { return x.Name == name })]
	for _, in := range inputs {
		if in.format == name {
			f.Add(in.text)
		}
	}
	f.Fuzz(func(t *testing.T, text string) {
		_ = format.Read(strings.NewReader(text), func(r Row) error { // any text may be refused
			if r.Out != "" {
				return nil
			}
			s := r.Subject
			if s.DType == "" {
				s.DType = "fp32"
			}
			s.N, s.K = max(1, s.N), max(1, s.K)
			timed := r.US == 0 || r.US >= leastUS && r.US <= mostUS
			if err := s.Validate(); err != nil || r.M < 1 || r.Calls < 1 || !timed || r.Subject.N < 0 || r.Subject.K < 0 {
				t.Fatalf("%s: %+v, %v", name, r, err)
			}
			return nil
		})
	})
}
