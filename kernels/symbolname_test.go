package kernels

import "testing"

func TestSymbolName(t *testing.T) {
	for _, c := range [][2]string{
		{"nvjet_hsh_128x256_64x4_2x1_v_bz_coopA_NNN", "nvjet_hsh_128x256_64x4_2x1_v_bz_coopA_NNN"},
		{"_ZN7cutlass7Kernel2I50cutlass_80_tensorop_bf16_s16816gemm_bf16_64x64_64xEEvNT_6ParamsE",
			"cutlass::Kernel2<cutlass_80_tensorop_bf16_s16816gemm_bf16_64x64_64x>"},
		{"_ZN8cublasLt19splitKreduce_kernelILi32ELi16EiffffLb1ELb0ELb0EEEvNS_18cublasSplitKParamsIT4_EE", "cublasLt::splitKreduce_kernel"},
		{"_ZN8internal5gemvx6kernelIii13__nv_bfloat16S2_S2_fLb0ELb1ELb1ELb0ELi6ELb0E18cublasGemvParamsExEEvT", "internal::gemvx::kernel"},
		{"_Z17gemv2T_kernel_valIiE", "gemv2T_kernel_val"},
		{"_Z", "_Z"},
		{"_ZN99999999999999999999a", "_ZN99999999999999999999a"},
		{"_Z5abc", "_Z5abc"},
		{"", ""},
	} {
		if got := SymbolName(c[0]); got != c[1] {
			t.Errorf("%q is called %q, want %q", c[0], got, c[1])
		}
	}
}
