package producer

import (
	"errors"
	"io"
	"regexp"
	"strings"

	"github.com/gemmaudit/gemmaudit/kernels"
)

// mklCall matches a call in oneMKL's verbose log: "MKL_VERBOSE SGEMM(T,N,4096,16,1024,…) 980.12us CNR:OFF …".
var mklCall = regexp.MustCompile(`^MKL_VERBOSE (\w+)\(([^()]*)\) ([0-9.]+)(ns|us|ms|s)\b`)

var mklTypes = map[string]kernels.DType{"SGEMM": kernels.FP32, "GEMM_BF16BF16F32": kernels.BF16, "GEMM_F16F16F32": kernels.FP16,
	"HGEMM": kernels.FP16}

// readMKL reads oneMKL's verbose log: one line per call, with its time. Arguments follow the Fortran
// interface.
func readMKL(in io.Reader, take taker) error {
	return eachMatch(in, mklCall, take, mklRow)
}

func mklRow(call []string) (Row, error) {
	r := Row{Kernel: "mkl"}
	dtype, ok := mklTypes[strings.ToUpper(call[1])]
	if !ok {
		return r, errors.New("it is another function than gemm, or of a type that is not measured")
	}
	r.Subject.DType = dtype
	if dtype != kernels.FP32 {
		output(&r.Subject, kernels.FP32)
	}
	// transa, transb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc
	args := strings.Split(call[2], ",")
	if len(args) < 13 {
		return r, errCut
	}
	c := columnMajor{transA: args[0], transB: args[1]}
	for at, to := range map[int]*int{2: &c.m, 3: &c.n, 4: &c.k, 7: &c.lda, 9: &c.ldb, 12: &c.ldc} {
		if *to, ok = parseSize(args[at]); !ok {
			return r, errCut
		}
	}
	if err := r.time(call[3], unitUS[call[4]]); err != nil {
		return r, err
	}
	err := c.fill(&r)
	return r, err
}
