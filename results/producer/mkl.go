package producer

import (
	"errors"
	"io"
	"regexp"
	"strconv"
	"strings"

	"github.com/gemmaudit/gemmaudit/kernels"
)

// mklCall matches a call in oneMKL's verbose log: "MKL_VERBOSE SGEMM(T,N,4096,16,1024,…) 980.12us CNR:OFF …".
var mklCall = regexp.MustCompile(`^MKL_VERBOSE (\w+)\(([^()]*)\) ([0-9.]+)(ns|us|ms|s)\b`)

var mklTypes = map[string]kernels.DType{"SGEMM": kernels.FP32, "GEMM_BF16BF16F32": kernels.BF16, "GEMM_F16F16F32": kernels.FP16,
	"HGEMM": kernels.FP16}

// readMKL reads oneMKL's verbose log: one line per call, with its time. Arguments follow the Fortran
// interface.
func readMKL(in io.Reader, take func(Row) error) error {
	return eachLine(in, func(line int, text string) error {
		call := mklCall.FindStringSubmatch(text)
		if call == nil {
			return nil
		}
		r, err := mklRow(call[1], strings.Split(call[2], ","), call[3], unitUS[call[4]])
		if err != nil {
			r = Row{Out: err.Error()}
		}
		r.Line = line
		return take(r)
	})
}

func mklRow(function string, args []string, time string, scale float64) (Row, error) {
	r := Row{Kernel: "mkl"}
	dtype, ok := mklTypes[strings.ToUpper(function)]
	if !ok {
		return r, errors.New("it is another function than gemm, or of a type that is not measured")
	}
	r.Subject.DType = dtype
	if dtype != kernels.FP32 {
		output(&r.Subject, kernels.FP32)
	}
	// transa, transb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc
	if len(args) < 13 {
		return r, errCut
	}
	c := columnMajor{transA: args[0], transB: args[1]}
	for at, to := range map[int]*int{2: &c.m, 3: &c.n, 4: &c.k, 7: &c.lda, 9: &c.ldb, 12: &c.ldc} {
		n, err := strconv.Atoi(args[at])
		if err != nil || n < 1 || n > maxSize {
			return r, errCut
		}
		*to = n
	}
	if r.US, ok = parseUS(time, scale); !ok {
		return r, errNoTime
	}
	return r, c.fill(&r)
}
