package producer

import (
	"cmp"
	"errors"
	"io"
	"regexp"
	"strconv"
	"strings"
)

// readROCmLog reads logs of rocBLAS and hipBLASLt: benchmark command lines, one per call, optionally with a
// count in front from `uniq -c`, and rocBLAS's profile, a YAML list with call_count.
func readROCmLog(in io.Reader, take taker) error {
	return eachLine(in, func(line int, text string) error {
		values, kernel := benchCommand(text)
		if values == nil {
			if values = flowMap(text); values == nil {
				return nil
			}
			kernel = "rocblas"
		}
		r, err := rocmRow(values, kernel)
		return take.row(line, r, err)
	})
}

var benchPrograms = map[string]string{"rocblas-bench": "rocblas", "hipblaslt-bench": "hipblaslt"}

// benchCommand returns a benchmark command line's flags in lower case; nil for other lines.
func benchCommand(text string) (values map[string]string, kernel string) {
	words := strings.Fields(text)
	count := ""
	if len(words) > 1 {
		if _, err := strconv.ParseUint(words[0], 10, 31); err == nil {
			count, words = words[0], words[1:]
		}
	}
	if len(words) == 0 {
		return nil, ""
	}
	kernel, ok := benchPrograms[words[0][strings.LastIndexByte(words[0], '/')+1:]]
	if !ok {
		return nil, ""
	}
	values = map[string]string{"call_count": count}
	for i := 1; i < len(words); i++ {
		name := strings.ToLower(strings.TrimLeft(words[i], "-"))
		if strings.HasPrefix(words[i], "-") && i+1 < len(words) {
			values[name] = words[i+1]
			i++
		}
	}
	return values, kernel
}

var pair = regexp.MustCompile(`(\w+): *(?:"([^"]*)"|'([^']*)'|([^,{} ]+))`)

// flowMap parses a line of a rocBLAS profile, "- { rocblas_function: …, M: 64, … }"; nil for other lines.
func flowMap(text string) map[string]string {
	if !strings.Contains(text, "rocblas_function:") {
		return nil
	}
	values := map[string]string{}
	for _, m := range pair.FindAllStringSubmatch(text, -1) {
		values[strings.ToLower(m[1])] = m[2] + m[3] + m[4]
	}
	return values
}

var rocmTypes = map[string]string{"h": "f16_r", "s": "f32_r", "d": "f64_r", "c": "f32_c", "z": "f64_c"}

func rocmRow(values map[string]string, kernel string) (Row, error) {
	r := Row{Kernel: kernel}
	function := cmp.Or(strings.TrimPrefix(values["rocblas_function"], "rocblas_"), values["f"], values["function"], "gemm")
	if !strings.Contains(function, "gemm") || strings.Contains(function, "gemmt") {
		return r, errFunction
	}
	a := cmp.Or(values["a_type"], values["r"], values["precision"])
	if prefix, ok := rocmTypes[function[:1]]; ok && a == "" && !strings.HasPrefix(function, "gemm") {
		a = prefix
	}
	if long, ok := rocmTypes[a]; ok {
		a = long
	}
	dtype, err := dtypeOf(cmp.Or(a, "f32_r"))
	if err != nil {
		return r, err
	}
	if b := values["b_type"]; b != "" && b != values["a_type"] {
		return r, errMixed
	}
	r.Subject.DType = dtype
	number := func(name string, absent int) int {
		n, err := strconv.Atoi(cmp.Or(values[name], strconv.Itoa(absent)))
		if err != nil || n < 0 || n > maxSize {
			return -1
		}
		return n
	}
	c := columnMajor{
		transA: cmp.Or(values["transposea"], values["transa"], "N"), transB: cmp.Or(values["transposeb"], values["transb"], "N"),
		m: number("m", -1), n: number("n", -1), k: number("k", -1), lda: number("lda", 0), ldb: number("ldb", 0), ldc: number("ldc", 0),
		batch: number("batch_count", 1),
	}
	if min(c.m, c.n, c.k, c.lda, c.ldb, c.ldc, c.batch) < 0 {
		return r, errCut
	}
	if strings.Contains(values["grouped_gemm"], "1") {
		return r, errGrouped
	}
	if r.Calls = number("call_count", 1); r.Calls < 1 {
		return r, errors.New("its count of calls is no number")
	}
	if err := c.fill(&r); err != nil {
		return r, err
	}
	if d, err := dtypeOf(cmp.Or(values["d_type"], values["c_type"])); err == nil {
		output(&r.Subject, d)
	}
	return r, nil
}
