package producer

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/gemmaudit/gemmaudit/kernels"
)

// readHipBLASLt reads hipblaslt-bench. A solution's name may follow its row on a separate line.
func readHipBLASLt(in io.Reader, take taker) error {
	var rows []Row
	err := readTable(in, []string{"transa", "hipblaslt-gflops"}, collect(&rows), func(t *table) (Row, error) {
		r, err := benchRow(t, "hipblaslt")
		if id := t.cell("solution_index", "soulution_index", "solution"); id != "" && err == nil {
			r.Label = "solution " + id
		}
		return r, err
	}, func(text string) {
		if len(rows) == 0 || rows[len(rows)-1].Out != "" {
			return
		}
		for _, word := range []string{"--Solution name:", "--kernel name:"} {
			if name, ok := strings.CutPrefix(text, word); ok {
				rows[len(rows)-1].Label = strings.TrimSpace(name)
			}
		}
	})
	if err != nil {
		return err
	}
	return give(fastest(rows), take)
}

// readRocBLAS reads rocblas-bench, which prints a header before each row, with columns that depend on the
// function.
func readRocBLAS(in io.Reader, take taker) error {
	return readTable(in, []string{"rocblas-gflops", "us"}, take, func(t *table) (Row, error) {
		if !hasAll(t.names, []string{"transa", "transb", "m", "n", "k"}) {
			return Row{}, errFunction
		}
		return benchRow(t, "rocblas")
	}, nil)
}

func benchRow(t *table, kernel string) (Row, error) {
	r := Row{Kernel: kernel}
	if g := t.cell("grouped_gemm"); g != "" && g != "0" {
		return r, errGrouped
	}
	c := columnMajor{transA: t.cell("transa"), transB: t.cell("transb")}
	c.m, c.n, c.k = t.sizes()
	c.lda, c.ldb, c.ldc, c.batch = t.count(0, "lda"), t.count(0, "ldb"), t.count(0, "ldc"), t.count(0, "batch_count")
	ldd := t.count(0, "ldd")
	if c.batch > 1 {
		for _, stride := range []string{"stride_a", "stride_b", "stridea", "strideb"} {
			if t.cell(stride) == "0" {
				return r, errShared
			}
		}
	}
	if err := c.fill(&r); err != nil {
		return r, err
	}
	if differs(ldd, c.m, c.n) {
		return r, errPadded
	}
	if err := benchTypes(t, &r); err != nil {
		return r, err
	}
	r.Kernel += epilogue(t)
	r.US = t.microseconds(1, "us", "hipblaslt-us")
	return r, nil
}

func benchTypes(t *table, r *Row) error {
	a, b, d := t.dtype("a_type"), t.dtype("b_type"), t.dtype("d_type", "c_type")
	if a == "" {
		a, b = d, d // early versions print only the output's type
	}
	if a != b && b != "" {
		return errMixed
	}
	if compute := strings.ToLower(t.cell("compute_type")); a == kernels.FP32 && strings.Contains(compute, "xf32") {
		a, d = kernels.TF32, ""
	}
	r.Subject.DType = a
	output(&r.Subject, d)
	return nil
}

// epilogue returns the operations fused with the product, as part of the kernel's name: with and without them
// are different curves.
func epilogue(t *table) string {
	s := ""
	if v := t.cell("bias_vector"); v != "" && v != "0" {
		s += "+bias"
	}
	if v := strings.ToLower(t.cell("activation_type")); v != "" && v != "none" {
		s += "+" + v
	}
	if v := t.cell("beta"); v != "" && strings.Trim(v, "0.-+e") != "" {
		s += "+beta"
	}
	return s
}

// readCUTLASS reads cutlass_profiler. Whether sizes are row-major depends on D's layout.
func readCUTLASS(in io.Reader, take taker) error {
	var rows []Row
	err := readTable(in, []string{"problem", "provider", "operationkind", "disposition"}, collect(&rows), cutlassRow, nil)
	if err != nil {
		return err
	}
	return give(fastest(rows), take)
}

func cutlassRow(t *table) (Row, error) {
	r := Row{Kernel: strings.ToLower(t.cell("provider")), Label: t.cell("operation")}
	if kind := t.cell("operationkind"); !strings.EqualFold(kind, "gemm") {
		return r, errFunction
	}
	if kind := strings.ToLower(t.cell("gemm_kind")); strings.Contains(kind, "grouped") || strings.Contains(kind, "array") {
		return r, errGrouped
	}
	// The time of a wrong result is meaningless.
	if d := strings.ToLower(t.cell("disposition")); !slices.Contains([]string{"passed", "not_verified"}, d) {
		return r, errors.New("its disposition is " + word(d))
	}
	if s := strings.ToLower(t.cell("status")); s != "" && s != "success" {
		return r, errors.New("its status is " + word(s))
	}
	m, n, k := t.sizes()
	a, aRows := operand(t, "a")
	b, bRows := operand(t, "b")
	d, dRows := operand(t, "d", "c")
	if a != b {
		return r, errMixed
	}
	batch := t.count(1, "batch_count")
	// Column-major it is the transposed product, in which A holds the weights; row-major B holds them.
	c := columnMajor{m: m, n: n, k: k, batch: batch, transA: trans(aRows), transB: trans(bRows)}
	if dRows {
		c = columnMajor{m: n, n: m, k: k, batch: batch, transA: trans(!bRows), transB: trans(!aRows)}
	}
	if err := c.fill(&r); err != nil {
		return r, err
	}
	if a == kernels.FP32 && strings.Contains(strings.ToLower(r.Label), "tf32") {
		a, d = kernels.TF32, ""
	}
	r.Subject.DType = a
	output(&r.Subject, d)
	r.US = t.microseconds(1e3, "runtime")
	return r, nil
}

// operand reads "f16:row".
func operand(t *table, names ...string) (d kernels.DType, rows bool) {
	typ, layout, _ := strings.Cut(t.cell(names...), ":")
	d, err := dtypeOf(typ)
	if err != nil {
		t.fail(err)
	}
	switch strings.ToLower(layout) {
	case "row", "t":
		return d, true
	case "column", "n":
		return d, false
	}
	t.fail(errors.New("the layout of " + strings.ToUpper(names[0]) + " is neither row nor column"))
	return d, false
}

func trans(t bool) string {
	if t {
		return "T"
	}
	return "N"
}

func word(s string) string {
	if s == "" || len(s) > 40 || !printable(s) {
		return "not known"
	}
	return s
}

// readNVBench reads the CSV of an NVBench program, whose axes have program-specific names.
func readNVBench(in io.Reader, take taker) error {
	return readTable(in, []string{"device name", "benchmark", "skipped"}, take, func(t *table) (Row, error) {
		r := Row{Device: t.cell("device name"), Kernel: t.cell("benchmark")}
		if s := strings.ToLower(t.cell("skipped")); s == "yes" || s == "true" || s == "1" {
			return r, errors.New("the benchmark skipped it")
		}
		r.M, r.Subject.N, r.Subject.K = t.size("m"), t.count(0, "n"), t.count(0, "k")
		t.batch(&r.Subject, "batch", "batch_count", "batchcount")
		r.Subject.DType = t.dtype("dtype", "type", "t", "datatype")
		t.layout(&r)
		if t.cell("gpu time (sec)", "batch gpu (sec)", "batch gpu") == "" {
			return r, errNoTime
		}
		r.US = t.microseconds(1e6, "gpu time (sec)", "batch gpu (sec)", "batch gpu")
		return r, nil
	}, nil)
}

// readAIConfigurator reads AIConfigurator tables: latency in milliseconds. Products are linear layers with
// weights [N,K].
func readAIConfigurator(in io.Reader, take taker) error {
	return readTable(in, []string{"latency", "kernel_source"}, take, func(t *table) (Row, error) {
		r := Row{Device: t.cell("device"), Kernel: t.cell("kernel_source"), Subject: kernels.Subject{Layout: kernels.Transposed}}
		if t.has("moe_dtype") {
			return r, errors.New("it is a grouped product of experts (MoE)")
		}
		if !t.has("gemm_dtype") {
			return r, errFunction
		}
		r.M, r.Subject.N, r.Subject.K = t.sizes()
		if ok, err := scaled(&r.Subject, t.cell("gemm_dtype")); err != nil {
			return r, err
		} else if !ok {
			r.Subject.DType = t.dtype("gemm_dtype")
		}
		r.US = t.microseconds(1e3, "latency")
		return r, nil
	}, nil)
}

func readShapes(in io.Reader, take taker) error {
	return readTable(in, []string{"m", "n", "k"}, take, func(t *table) (Row, error) {
		var r Row
		r.M, r.Subject.N, r.Subject.K = t.sizes()
		if ok, err := scaled(&r.Subject, t.cell("dtype", "type")); err != nil {
			return r, err
		} else if !ok {
			r.Subject.DType = t.dtype("dtype", "type")
		}
		r.Subject.Layout = kernels.Transposed // as engines store weights
		t.layout(&r)
		t.batch(&r.Subject, "batch_count", "batch")
		if r.Calls = t.count(1, "calls", "count"); r.Calls == 0 {
			return r, errors.New("it was never called")
		}
		return r, nil
	}, nil)
}

func collect(rows *[]Row) func(Row) error {
	return func(r Row) error {
		if len(*rows) >= maxKept {
			return fmt.Errorf("more than %d rows to compare", maxKept)
		}
		*rows = append(*rows, r)
		return nil
	}
}

func give(rows []Row, take taker) error {
	for _, r := range rows {
		if err := take(r); err != nil {
			return err
		}
	}
	return nil
}

// fastest keeps each product's rows with the label of its fastest row. Tuners time every solution; a
// library's curve is its best one.
func fastest(rows []Row) []Row {
	type product struct {
		kernel string
		kernels.Subject
		m int
	}
	best := map[product]int{}
	key := func(r Row) product { return product{r.Kernel, r.Subject, r.M} }
	for i, r := range rows {
		if j, ok := best[key(r)]; r.Out == "" && (!ok || r.US < rows[j].US) {
			best[key(r)] = i
		}
	}
	for i, r := range rows {
		if r.Out == "" && r.Label != rows[best[key(r)]].Label {
			rows[i].Out = "another solution of the product is faster"
		}
	}
	return rows
}
