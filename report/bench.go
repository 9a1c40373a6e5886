package report

import (
	"bufio"
	"fmt"
	"io"
	"sort"
	"strconv"
	"strings"
	"unicode"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/results"
	"github.com/gemmaudit/gemmaudit/rules/remedy"
)

type benchLine struct {
	c        results.Case
	launches int
	us       float64
	peak     kernels.Peak
}

// WriteBench writes every sample of the series as one line of Go's benchmark format
// (https://go.dev/design/14313-benchmark-format), ordered by series, M and time, so benchstat sees the whole
// distribution:
//
//	BenchmarkGemm/device=cpu/kernel=amx/dtype=bf16/n=14336/k=4096/m=1024-2 8 1716700 ns/op 70051 GFLOP/s 0.7005 MFU
//
// The iterations are the launches of the block; the suffix is the number of threads. Non-default properties
// (layout nk, weight format, regime, packing inside, parts, padding) add keys to the name. MFU is omitted if
// no peak is known. benchstat compares only files with equal configurations. Values that vary between
// comparable runs (version, seed, measured peaks) are therefore comments.
func WriteBench(w io.Writer, meta results.Meta, series []results.Series) error {
	b := bufio.NewWriter(w)
	benchHeader(b, meta)
	for _, s := range series {
		for _, r := range s.Rows {
			for _, sample := range r.Samples {
				writeBenchLine(b, benchLine{r.Case, sample.Launches, sample.US, s.Peak})
			}
		}
	}
	return b.Flush()
}

func benchSplits(w io.Writer, meta results.Meta, splits *remedy.Result) error {
	b := bufio.NewWriter(w)
	benchHeader(b, meta)
	for _, r := range allRemedies(splits) {
		c := results.Case{SeriesKey: r.Series, M: r.M}
		writeBenchLine(b, benchLine{c, 1, r.DirectUS, kernels.Peak{}})
		if !r.Executed {
			continue
		}
		writeBenchLine(b, benchLine{r.Case(c), 1, r.ExecutedUS.Mid, kernels.Peak{}})
	}
	return b.Flush()
}

// benchHeader writes the configuration shared by all lines, comments on the run, and the better direction of
// each unit.
func benchHeader(w io.Writer, meta results.Meta) {
	fp := meta.Fingerprint
	write := func(lead string, lines [][2]string) {
		for _, l := range lines {
			if value := strings.TrimSpace(Clean(l[1])); value != "" {
				fmt.Fprintf(w, "%s%s: %s\n", lead, l[0], value)
			}
		}
	}
	write("", [][2]string{
		{"goos", goos(fp.OS)}, {"goarch", goarch(fp.Arch)}, {"pkg", "github.com/gemmaudit/gemmaudit"}, {"cpu", fp.CPUModel},
		{"distribution", string(meta.Distribution)},
	})
	comments := [][2]string{{"gemmaudit", meta.Gemmaudit}, {"source", meta.Source}, {"labels", meta.Labels.String()}}
	if meta.Source == "" {
		comments = append(comments, [2]string{"seed", strconv.FormatUint(meta.Seed, 10)})
	}
	for _, id := range deviceIDs(meta) {
		for _, p := range bestPeaks(meta.Ceilings[id]) {
			comments = append(comments, [2]string{
				benchKey("peak-" + id + "-" + string(p.DType)),
				fmt.Sprintf("%s %s", formatOps(p.FLOPS, p.DType), p.Origin),
			})
		}
	}
	write("# ", comments)
	fmt.Fprintln(w, "Unit ns/op better=lower")
	fmt.Fprintln(w, "Unit GFLOP/s better=higher")
	fmt.Fprintln(w, "Unit MFU better=higher")
	fmt.Fprintln(w)
}

func deviceIDs(meta results.Meta) []string {
	var ids []string
	for id := range meta.Ceilings {
		ids = append(ids, id)
	}
	sort.Strings(ids)
	return ids
}

func bestPeaks(c kernels.Ceilings) []kernels.Peak {
	var out []kernels.Peak
	for _, d := range kernels.DTypes() {
		if p, ok := c.Peak(d); ok {
			out = append(out, p)
		}
	}
	return out
}

func writeBenchLine(w io.Writer, l benchLine) {
	// The format requires a positive count and a finite number.
	if !IsFinite(l.us) || l.us <= 0 {
		return
	}
	k := l.c.SeriesKey
	fmt.Fprintf(w, "Benchmark%s/device=%s/kernel=%s/dtype=%s", benchName(k.Operation), benchValue(k.Device), benchValue(k.Kernel),
		benchValue(string(k.DType)))
	for _, d := range k.Operation.Dims() {
		if v := *d.In(&k.Dims); v != 0 {
			if d.Word != nil {
				fmt.Fprintf(w, "/%s=%s", d.Name, benchValue(d.Word(v)))
				continue
			}
			fmt.Fprintf(w, "/%s=%d", d.Name, v)
		}
	}
	if k.Layout != kernels.RowMajor {
		fmt.Fprintf(w, "/layout=%v", k.Layout)
	}
	if k.Weights != (kernels.WeightFormat{}) {
		fmt.Fprintf(w, "/weights=%s", benchValue(k.Weights.String()))
	}
	if k.Regime != "" && k.Regime != results.Engine {
		fmt.Fprintf(w, "/regime=%s", benchValue(string(k.Regime)))
	}
	if k.PackInside {
		io.WriteString(w, "/pack=inside")
	}
	if len(l.c.Parts) > 0 {
		fmt.Fprintf(w, "/parts=%s", results.JoinInts(l.c.Parts, "+"))
	}
	if l.c.PadTo > 0 {
		fmt.Fprintf(w, "/pad=%d", l.c.PadTo)
	}
	if l.c.Copied {
		io.WriteString(w, "/copied")
	}
	fmt.Fprintf(w, "/m=%d", l.c.M)
	if k.Threads > 0 {
		fmt.Fprintf(w, "-%d", k.Threads)
	}
	rate := l.c.FLOPs() / (l.us * 1e-6)
	fmt.Fprintf(w, " %d %s ns/op %s GFLOP/s", max(1, l.launches), formatBench(l.us*1e3), formatBench(rate/1e9))
	if l.peak.FLOPS > 0 {
		fmt.Fprintf(w, " %s MFU", formatBench(rate/l.peak.FLOPS))
	}
	io.WriteString(w, "\n")
}

func formatBench(v float64) string {
	s := Significant(v, 6)
	if strings.Contains(s, ".") {
		s = strings.TrimRight(strings.TrimRight(s, "0"), ".")
	}
	return s
}

// benchName is an operation's benchmark name: "AttentionPrefill".
func benchName(o kernels.Operation) string {
	var b strings.Builder
	for word := range strings.SplitSeq(o.String(), "-") {
		b.WriteString(strings.ToUpper(word[:1]) + word[1:])
	}
	return b.String()
}

func benchValue(s string) string {
	s = strings.Map(func(r rune) rune {
		if unicode.IsSpace(r) || r == '/' || r == '=' {
			return '_'
		}
		return r
	}, Clean(s))
	if s == "" {
		return "unknown"
	}
	return s
}

// benchKey makes a name safe as a configuration key: lower case, and no colon, which would end it.
func benchKey(s string) string {
	return strings.ToLower(strings.ReplaceAll(benchValue(s), ":", ""))
}

// goos and goarch return the fingerprint's system in Go's names, because readers of the format group by them.
// Unknown systems produce no line.
func goos(os string) string {
	lower := strings.ToLower(os)
	switch {
	case lower == "":
		return ""
	case strings.Contains(lower, "darwin"), strings.Contains(lower, "macos"):
		return "darwin"
	case strings.Contains(lower, "windows"):
		return "windows"
	}
	return "linux"
}

func goarch(arch string) string {
	switch strings.ToLower(arch) {
	case "x86_64":
		return "amd64"
	case "aarch64":
		return "arm64"
	}
	return arch
}
