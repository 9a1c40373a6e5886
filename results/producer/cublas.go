package producer

import (
	"errors"
	"io"
	"regexp"
	"strconv"
	"strings"

	"github.com/gemmaudit/gemmaudit/kernels"
)

// group matches "Adesc=[type=R_16BF rows=4096 …]" in cuBLASLt's log.
var group = regexp.MustCompile(`(\w+)=\[([^\[\]]*)\]`)

// readCuBLASLt reads cuBLASLt's log: one line per call of cublasLtMatmul. Other calls are ignored: a
// heuristic query computes nothing.
func readCuBLASLt(in io.Reader, take taker) error {
	return eachLine(in, func(line int, text string) error {
		_, rest, ok := strings.Cut(text, "[cublasLtMatmul] ")
		if !ok || !strings.Contains(text, "[cublasLt]") || !strings.Contains(rest, "Adesc=[") {
			return nil
		}
		r, err := cublasLtRow(rest)
		return take.row(line, r, err)
	})
}

func cublasLtRow(text string) (Row, error) {
	r := Row{Kernel: "cublaslt"}
	groups := map[string]map[string]string{}
	for _, m := range group.FindAllStringSubmatch(text, -1) {
		values := map[string]string{}
		for _, word := range strings.Fields(m[2]) {
			key, value, _ := strings.Cut(word, "=")
			values[key] = value
		}
		groups[m[1]] = values
	}
	a, b, compute := groups["Adesc"], groups["Bdesc"], groups["computeDesc"]
	d := groups["Ddesc"]
	if d == nil {
		d = groups["Cdesc"]
	}
	for _, of := range []map[string]string{a, b, d} {
		if order := of["order"]; order != "" && order != "ORDER_COL" && order != "COL" {
			return r, errors.New("a matrix is not stored by columns")
		}
	}
	numbers := func(of map[string]string, keys ...string) (out []int, err error) {
		for _, key := range keys {
			n, ok := parseSize(of[key])
			if !ok {
				return nil, errCut
			}
			out = append(out, n)
		}
		return out, nil
	}
	as, err := numbers(a, "rows", "cols", "ld")
	if err != nil {
		return r, err
	}
	bs, err := numbers(b, "rows", "cols", "ld")
	if err != nil {
		return r, err
	}
	ds, err := numbers(d, "rows", "cols", "ld")
	if err != nil {
		return r, err
	}
	c := columnMajor{m: ds[0], n: ds[1], k: as[1], lda: as[2], ldb: bs[2], ldc: ds[2], transA: opOf(compute["transa"]),
		transB: opOf(compute["transb"])}
	if c.transA != "N" {
		c.k = as[0]
	}
	if n, err := strconv.Atoi(a["batchCount"]); err == nil {
		c.batch = n
	}
	r.Subject.DType, err = dtypeOf(a["type"])
	switch {
	case err != nil:
		return r, err
	case a["type"] != b["type"]:
		return r, errMixed
	}
	out, err := dtypeOf(d["type"])
	if err != nil {
		return r, err
	}
	tensorFloat(&r.Subject, compute["computeType"])
	output(&r.Subject, out)
	return r, c.fill(&r)
}

// opOf reads OP_T and CUBLAS_OP_T; the default is not transposed.
func opOf(s string) string {
	if s == "" {
		return "N"
	}
	return s[len(s)-1:]
}

// tensorFloat sets the type of fp32 operands rounded to tf32.
func tensorFloat(s *kernels.Subject, compute string) {
	if s.DType == kernels.FP32 && strings.Contains(compute, "TF32") {
		s.DType = kernels.TF32
	}
}

var (
	cublasCall  = regexp.MustCompile(`^I! cuBLAS \(v.*\bcublasStatus_t cublas(\w+)\(`)
	cublasValue = regexp.MustCompile(`^i!\s+(\w+): type=[^;]*; val=([^( ]+)`)
	cublasGEMM  = regexp.MustCompile(`(?i)gemm`)
)

// readCuBLAS reads cuBLAS's log: a line per call, then one per argument.
func readCuBLAS(in io.Reader, take taker) error {
	var function string
	var at int
	values := map[string]string{}
	end := func() error {
		if function == "" || !cublasGEMM.MatchString(function) {
			return nil
		}
		r, err := cublasRow(function, values)
		return take.row(at, r, err)
	}
	err := eachLine(in, func(line int, text string) error {
		if m := cublasCall.FindStringSubmatch(text); m != nil {
			err := end()
			function, at, values = m[1], line, map[string]string{}
			return err
		}
		if m := cublasValue.FindStringSubmatch(text); m != nil && len(values) < 64 {
			values[m[1]] = m[2]
		}
		if _, mode, ok := strings.Cut(text, "MathMode="); ok && strings.HasPrefix(text, "i!") && len(mode) < 64 {
			values["MathMode"] = mode
		}
		return nil
	})
	if err != nil {
		return err
	}
	return end()
}

func cublasRow(function string, values map[string]string) (Row, error) {
	r := Row{Kernel: "cublas"}
	name := strings.TrimSuffix(strings.TrimSuffix(function, "_64"), "_v2")
	if strings.Contains(strings.ToLower(name), "grouped") {
		return r, errGrouped
	}
	a, b, d := values["Atype"], values["Btype"], values["Ctype"]
	if a == "" {
		// The letter before "gemm" is the type.
		known := map[byte]string{'S': "CUDA_R_32F", 'H': "CUDA_R_16F"}
		a = known[name[0]]
		b, d = a, a
	}
	var err error
	if r.Subject.DType, err = dtypeOf(a); err != nil {
		return r, errType
	}
	if a != b {
		return r, errMixed
	}
	out, err := dtypeOf(d)
	if err != nil {
		return r, err
	}
	tensorFloat(&r.Subject, values["computeType"]+values["MathMode"])
	output(&r.Subject, out)
	c := columnMajor{transA: opOf(values["transa"]), transB: opOf(values["transb"])}
	for _, v := range []struct {
		key      string
		to       *int
		required bool
	}{{"m", &c.m, true}, {"n", &c.n, true}, {"k", &c.k, true}, {"lda", &c.lda, false}, {"ldb", &c.ldb, false}, {"ldc", &c.ldc, false},
		{"batchCount", &c.batch, false}} {
		n, err := strconv.ParseInt(values[v.key], 10, 64)
		if v.required && (err != nil || n < 1) || n > maxSize {
			return r, errors.New("its arguments are not in the log")
		}
		*v.to = int(max(0, n))
	}
	if c.batch > 1 && (values["strideA"] == "0" || values["strideB"] == "0") {
		return r, errShared
	}
	return r, c.fill(&r)
}
