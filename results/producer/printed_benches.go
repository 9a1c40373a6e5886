package producer

import (
	"encoding/csv"
	"errors"
	"io"
	"regexp"
	"strings"

	"github.com/gemmaudit/gemmaudit/kernels"
)

// tritonSizes is the first column of TritonBench's operators gemm and fp8_gemm.
const tritonSizes = "(M, N, K)"

// isTriton reports whether a file is a TritonBench table: cells are separated by ";", and each implementation
// has a column IMPLEMENTATION-latency.
func isTriton(h head) bool {
	return len(h.lines) > 0 && strings.Contains(h.lines[0], ";") && strings.Contains(h.lines[0]+";", "-latency;")
}

// readTriton reads TritonBench's --csv and --output: a line per size, a column per implementation, p50 in
// milliseconds. The default layout "tn" has weights [N,K]. See write_csv_to_file in
// tritonbench/utils/triton_op.py, and operators/gemm/operator.py.
func readTriton(in io.Reader, take taker) error {
	var names []string
	return eachLine(in, func(line int, text string) error {
		r := csv.NewReader(strings.NewReader(text))
		r.Comma, r.LazyQuotes, r.FieldsPerRecord = ';', true, -1
		cells, err := r.Read()
		if err != nil {
			return nil // an empty line
		}
		if names == nil {
			names = cells
			return nil
		}
		if first := strings.TrimSpace(cells[0]); first == "average" || first == "hashes" {
			return nil
		}
		for i, name := range names {
			kernel, ok := strings.CutSuffix(name, "-latency")
			if !ok {
				continue
			}
			cell := ""
			if i < len(cells) {
				cell = strings.TrimSpace(cells[i])
			}
			row, err := tritonRow(names[0], cells[0], cell)
			row.Kernel = kernel
			if err := take.row(line, row, err); err != nil {
				return err
			}
		}
		return nil
	})
}

func tritonRow(what, sizes, latency string) (Row, error) {
	r := Row{}
	r.Subject.Layout = kernels.Transposed
	if strings.TrimSpace(what) != tritonSizes {
		return r, errFunction
	}
	words := strings.Split(strings.Trim(sizes, "() "), ",")
	if len(words) != 3 {
		return r, errUnknown
	}
	for i, to := range []*int{&r.M, &r.Subject.N, &r.Subject.K} {
		var ok bool
		if *to, ok = parseSize(strings.TrimSpace(words[i])); !ok {
			return r, errUnknown
		}
	}
	latency, _, _ = strings.Cut(latency, " ") // "0.25 (±1.2%)"
	err := r.time(latency, 1e3)               // it has none if it failed or was skipped
	return r, err
}

const dnnMark = "Output template: "

// dnnTemplate is benchdnn's output per problem, as described in tests/benchdnn/doc/knobs_perf_report.md of
// oneDNN.
type dnnTemplate struct {
	line  *regexp.Regexp
	names []string
}

// mostSymbols limits a template's symbols.
const mostSymbols = 64

// dnnFigure matches the symbols that print a number.
var dnnFigure = regexp.MustCompile(`(?:time|clocks|freq|bytes|bw|ops)$`)

// newDNNTemplate reads "perf,%engine%,%impl%,%name%,%prb%,%Gops%,%-time%,%-Gflops%,%0time%,%0Gflops%".
func newDNNTemplate(text string) (*dnnTemplate, error) {
	parts := strings.Split(text, "%")
	t := &dnnTemplate{}
	form := "^"
	for i, part := range parts {
		if i%2 == 0 {
			form += regexp.QuoteMeta(part)
			continue
		}
		t.names = append(t.names, part)
		if dnnFigure.MatchString(part) {
			form += "([-+.0-9a-z]*)"
		} else {
			form += "(.*?)"
		}
	}
	if len(parts)%2 == 0 || len(t.names) > mostSymbols || len(text) > maxText {
		return nil, errors.New("its output template cannot be read")
	}
	var err error
	if t.line, err = regexp.Compile(form + "$"); err != nil {
		return nil, errors.New("its output template cannot be read")
	}
	return t, nil
}

// read returns a line's values by symbol; nil for other lines.
func (t *dnnTemplate) read(line string) map[string]string {
	if len(line) > maxText || len(t.names) == 0 {
		return nil
	}
	m := t.line.FindStringSubmatch(line)
	if m == nil {
		return nil
	}
	out := map[string]string{}
	for i, name := range t.names {
		out[name] = m[i+1]
	}
	return out
}

func readBenchDNN(in io.Reader, take taker) error {
	var t *dnnTemplate
	return eachLine(in, func(line int, text string) error {
		text = strings.TrimSpace(text)
		if template, ok := strings.CutPrefix(text, dnnMark); ok {
			found, err := newDNNTemplate(template)
			t = found
			return err
		}
		if t == nil {
			return nil
		}
		values := t.read(text)
		if values == nil {
			return nil
		}
		r, err := dnnRow(values)
		return take.row(line, r, err)
	})
}

// dnnMatmul is a matmul problem, "16x32:32x64" with an optional name, and dnnIP an inner product,
// "mb16ic32oc64".
var (
	dnnMatmul = regexp.MustCompile(`^(\d[\dx]*:\d[\dx]*)(?::\d[\dx]*)?(?:_?n.*)?$`)
	dnnIP     = regexp.MustCompile(`^(?:(?:mb|ic|oc|id|ih|iw)\d+)+(?:_?n.*)?$`)
	dnnSize   = regexp.MustCompile(`(mb|ic|oc|id|ih|iw)(\d+)`)
)

// dnnRow reads a line's values. It takes the mean time if printed, otherwise the minimum.
func dnnRow(values map[string]string) (Row, error) {
	r := Row{Kernel: "onednn", Label: values["impl"]}
	options, problem := map[string]string{}, values["desc"]
	for word := range strings.FieldsSeq(values["prb"]) {
		if option, ok := strings.CutPrefix(word, "--"); ok {
			name, value, _ := strings.Cut(option, "=")
			options[name] = value
		} else {
			problem = word
		}
	}
	if cfg := values["cfg"]; cfg != "" {
		options["cfg"] = cfg
	}
	types, err := dnnTypes(options)
	if err != nil {
		return r, err
	}
	r.Subject.DType = types[0]
	if len(types) > 2 {
		output(&r.Subject, types[2])
	}
	tag := func(name string) tensor { return tensor{order: options[name]} }
	switch m := dnnMatmul.FindStringSubmatch(problem); {
	case m != nil:
		if err := matmul(&r, m[1], tag("stag"), tag("wtag")); err != nil {
			return r, err
		}
	case dnnIP.MatchString(problem):
		if err := dnnInner(&r, problem); err != nil {
			return r, err
		}
	default:
		return r, errFunction
	}
	if bias := options["bia_dt"]; bias != "" && bias != "undef" {
		r.Kernel += "+bias"
	}
	for _, name := range []string{"attr-post-ops", "attr-scales", "attr-zero-points"} {
		if options[name] != "" {
			r.Kernel += "+" + strings.TrimPrefix(name, "attr-")
		}
	}
	for _, name := range []string{"0time", "-time", "time"} {
		if r.time(strings.TrimSpace(values[name]), 1e3) == nil {
			return r, nil
		}
	}
	return r, errNoTime
}

// dnnTypes returns the types of source, weights and destination; fp32 by default.
func dnnTypes(options map[string]string) (out []kernels.DType, err error) {
	names := strings.Split(options["dt"], ":")
	if cfg := options["cfg"]; cfg != "" && options["dt"] == "" {
		names = dnnConfig.FindAllString(cfg, -1)
	}
	for _, name := range names {
		if name == "" {
			name = "f32"
		}
		d, err := dtypeOf(name)
		if err != nil {
			return nil, err
		}
		out = append(out, d)
	}
	switch {
	case len(out) == 0:
		return []kernels.DType{kernels.FP32}, nil
	case len(out) > 1 && out[0] != out[1]:
		return nil, errMixed
	case options["attr-fpmath"] != "" && !strings.HasPrefix(options["attr-fpmath"], "strict"):
		return nil, errMixed
	}
	return out, nil
}

// dnnConfig finds the types in "bf16bf16f32".
var dnnConfig = regexp.MustCompile(`bf16|f16|f32|u8|s8|s32`)

func dnnInner(r *Row, problem string) error {
	sizes := map[string]int{}
	problem, _, _ = strings.Cut(problem, "n") // the name
	for _, m := range dnnSize.FindAllStringSubmatch(problem, -1) {
		var ok bool
		if sizes[m[1]], ok = parseSize(m[2]); !ok {
			return errUnknown
		}
	}
	r.M, r.Subject.N, r.Subject.K = max(1, sizes["mb"]), sizes["oc"], sizes["ic"]
	for _, name := range []string{"id", "ih", "iw"} {
		if n := sizes[name]; n > 0 {
			if r.Subject.K *= n; r.Subject.K > maxSize {
				return errUnknown
			}
		}
	}
	if min(r.Subject.N, r.Subject.K) < 1 {
		return errUnknown
	}
	r.Subject.Layout = kernels.Transposed
	return nil
}
