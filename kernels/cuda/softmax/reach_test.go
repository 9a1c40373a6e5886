//go:build cuda

package softmax

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/cudatest"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/gputest"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/planning"
	"github.com/gemmaudit/gemmaudit/kernels/kerneltest"
	"github.com/gemmaudit/gemmaudit/rules/stats"
)

const (
	reachMiB = 256
	// reachTiny is the minimum columns for measuring more than auto and warp; other kernels have a block per
	// row, of millions of rows.
	reachTiny = 200
	// reachSample is the length of a sample in seconds, unless a launch is longer.
	reachSample = 1e-3
)

// reachColumns are the columns with a bandwidth target: powers of two, and others.
var reachColumns = []struct {
	columns []int
	asked   float64
}{
	{[]int{128, 256, 512, 1024, 2048, 4096, 8192, 16384, 32768, 65536, 131072, 262144}, 0.92},
	{[]int{1, 3, 7, 33, 77, 129, 257, 601, 1000, 1023, 2049, 4097, 10007, 32767, 50257, 100003}, 0.85},
}

func fromEnv(b *testing.B, name string, without ...int) []int {
	text := os.Getenv(name)
	if text == "" {
		return without
	}
	var all []int
	for word := range strings.SplitSeq(text, ",") {
		n, err := strconv.Atoi(word)
		if err != nil || n < 1 {
			b.Fatalf("%s is %q: expected numbers from 1 on", name, text)
		}
		all = append(all, n)
	}
	return all
}

// reachBytes returns the input size; GEMMAUDIT_SOFTMAX_MIB overrides it.
func reachBytes(b *testing.B) int64 {
	return int64(fromEnv(b, "GEMMAUDIT_SOFTMAX_MIB", reachMiB)[0]) << 20
}

type reach struct {
	gputest.GPU
	in, out kernels.Buffer
}

func newReach(b *testing.B, d gputest.GPU, dt kernels.DType) reach {
	bytes := reachBytes(b)
	r := reach{GPU: d, in: gputest.Buffer(b, d, bytes), out: gputest.Buffer(b, d, bytes)}
	if err := r.in.Fill(kernels.Normal, dt, bytes/int64(dt.Size()), 1); err != nil {
		b.Fatal(err)
	}
	return r
}

func (r reach) series(b *testing.B, name string, l kernels.Launch) *kerneltest.Series {
	seconds := func(n int) (float64, error) {
		span, err := r.Execute(context.Background(), []kernels.Launch{l}, n)
		return span.Seconds / float64(n), err
	}
	if _, err := seconds(1); err != nil { // code and clocks
		b.Fatalf("%s: %v", name, err)
	}
	once, err := seconds(3)
	if err != nil {
		b.Fatalf("%s: %v", name, err)
	}
	n := int(min(max(reachSample/once, 1), 200))
	return &kerneltest.Series{Name: name, Sample: func() (float64, error) { return seconds(n) }}
}

func (r reach) copies(b *testing.B, bytes int64) []*kerneltest.Series {
	elements := int(bytes / 4)
	src, err := r.Matrix("In", kernels.Operand{Buffer: r.in}, 1, elements, elements, kernels.FP32)
	if err != nil {
		b.Fatal(err)
	}
	dst, err := r.Matrix("Out", kernels.Operand{Buffer: r.out}, 1, elements, elements, kernels.FP32)
	if err != nil {
		b.Fatal(err)
	}
	launches, err := r.NewCopies(dst, src, bytes/16*16, r.in, r.out)
	if err != nil {
		b.Fatal(err)
	}
	var all []*kerneltest.Series
	for _, l := range launches {
		all = append(all, r.series(b, l.Label(), l))
	}
	return all
}

func (r reach) ways(b *testing.B, o kernels.Task) (all []*kerneltest.Series, label string) {
	p, err := NewProblem(o)
	if err != nil {
		b.Fatal(err)
	}
	add := func(name string, among ...family) kernels.Launch {
		l, err := NewWay(r.Device, name, "", among...).Bind(o, kernels.Operand{Buffer: r.in}, kernels.NothingStored{},
			kernels.Operand{Buffer: r.out})
		if err != nil {
			b.Fatalf("%s: %v", name, err)
		}
		all = append(all, r.series(b, name, l))
		return l
	}
	label = add("auto", ladder...).Label()
	families := Families()
	if o.Columns < reachTiny {
		families = ladder[:1]
	}
	for _, f := range families {
		for _, way := range cudatest.Ways(r.Arch(), f, p) {
			add(planning.JoinLabel(f.Name(), way.Plan(r.Arch(), p).Label), way)
		}
	}
	return all, label
}

func fastest(all []*kerneltest.Series) *kerneltest.Series {
	return slices.MinFunc(all, func(x, y *kerneltest.Series) int {
		return int(math.Copysign(1, stats.Median(x.Samples)-stats.Median(y.Samples)))
	})
}

func ofFamily(all []*kerneltest.Series, name string) []*kerneltest.Series {
	var out []*kerneltest.Series
	for _, s := range all {
		if first, _, _ := strings.Cut(s.Name, " "); first == name {
			out = append(out, s)
		}
	}
	return out
}

// BenchmarkReach measures auto and every plan of every kernel on rows of many lengths, 256 MiB in (see
// reachBytes) and as much out. Plain copies of as many bytes run interleaved. The first line of a case has
// the bandwidth of the better copy, auto's choice with its share of that, and the best share of each kernel.
// The second has the shares of all candidates of auto, the fastest first, with the model's expectation.
// GEMMAUDIT_SOFTMAX selects cases by a substring of their name: "fp16 c4096 "; GEMMAUDIT_SOFTMAX_COLUMNS sets
// other columns. The last line counts cases below the target.
func BenchmarkReach(b *testing.B) {
	d := gputest.First(b)
	below, cases := 0, 0
	for _, dt := range types {
		goals := slices.Clone(reachColumns)
		if columns := fromEnv(b, "GEMMAUDIT_SOFTMAX_COLUMNS"); columns != nil {
			goals = goals[:1]
			goals[0].columns = columns
		}
		for _, goal := range goals {
			worst, missed := 1.0, 0
			ran := false
			for _, columns := range goal.columns {
				o := kernels.Task{Subject: kernels.Subject{Operation: kernels.Softmax, DType: dt, Dims: kernels.Dims{Columns: columns}},
					M: int(reachBytes(b)) / dt.Size() / columns}
				name := fmt.Sprintf("%s c%d m%d", dt, columns, o.M)
				if !strings.Contains(name+" ", os.Getenv("GEMMAUDIT_SOFTMAX")) {
					continue
				}
				b.Run(strings.ReplaceAll(name, " ", "/"), func(b *testing.B) {
					share := reachRow(b, newReach(b, d, dt), o, name)
					b.ReportMetric(share, "of-copy")
					b.ReportMetric(0, "ns/op")
					worst, ran = min(worst, share), true
					cases++
					if share < goal.asked {
						missed++
						below++
					}
				})
			}
			if ran {
				fmt.Fprintf(os.Stderr, "softmax %s: worst share of a copy %.3f (asked %.2f), %d of %d below\n", dt, worst, goal.asked,
					missed, len(goal.columns))
			}
		}
	}
	fmt.Fprintf(os.Stderr, "softmax: %d of %d cases below what is asked\n", below, cases)
}

func reachRow(b *testing.B, r reach, o kernels.Task, name string) float64 {
	bytes := int64(o.M) * int64(o.Columns) * int64(o.DType.Size())
	copies := r.copies(b, bytes)
	all, label := r.ways(b, o)
	kerneltest.MeasureRounds(b, slices.Concat(copies, all))
	copied := fastest(copies)
	share := func(s *kerneltest.Series) float64 {
		mid, _, _ := stats.MedianInterval(kerneltest.Ratios(copied, s))
		return mid
	}
	line := fmt.Sprintf("%-20s copy %.2f TB/s; auto %.3f %s;", name, 2*float64(bytes)/stats.Median(copied.Samples)/1e12, share(all[0]),
		label)
	for _, f := range Families() {
		if of := ofFamily(all, f.Name()); len(of) > 0 {
			best := fastest(of)
			line += fmt.Sprintf(" %s %.3f,", best.Name, share(best))
		}
	}
	fmt.Fprintln(os.Stderr, strings.TrimSuffix(line, ","))
	fmt.Fprintf(os.Stderr, "  ways: %s\n", strings.Join(r.shares(b, o, all, share), ", "))
	return share(all[0])
}

func (r reach) shares(b *testing.B, o kernels.Task, all []*kerneltest.Series, share func(*kerneltest.Series) float64) []string {
	p, err := NewProblem(o)
	if err != nil {
		b.Fatal(err)
	}
	_, picked, _ := planning.Pick(ladder, r.Arch(), p)
	expected := map[string]float64{}
	for _, f := range ladder {
		for _, way := range cudatest.Ways(r.Arch(), f, p) {
			plan := way.Plan(r.Arch(), p)
			expected[planning.JoinLabel(f.Name(), plan.Label)] = picked.Seconds / plan.Seconds
		}
	}
	var ways []string
	for _, s := range slices.SortedFunc(slices.Values(all), func(x, y *kerneltest.Series) int { return cmp.Compare(share(y), share(x)) }) {
		if e, ok := expected[s.Name]; ok {
			ways = append(ways, fmt.Sprintf("%s %.3f (%.3f)", s.Name, share(s), e))
		}
	}
	return ways
}

// BenchmarkSmall measures softmaxes that fit L2, which are bound by launches, latency and synchronization:
// auto, and the best plan. A second line has the best time over each candidate's time.
func BenchmarkSmall(b *testing.B) {
	d := gputest.First(b)
	for _, dt := range []kernels.DType{kernels.FP32, kernels.FP16} {
		for _, columns := range []int{5, 64, 1000, 4096, 16384, 50257} {
			for _, rows := range []int{1, 16, 264, 4096} {
				o := kernels.Task{Subject: kernels.Subject{Operation: kernels.Softmax, DType: dt, Dims: kernels.Dims{Columns: columns}},
					M: rows}
				name := fmt.Sprintf("%s c%d m%d", dt, columns, rows)
				if rows*columns > 1<<23 || !strings.Contains(name+" ", os.Getenv("GEMMAUDIT_SOFTMAX")) {
					continue
				}
				b.Run(strings.ReplaceAll(name, " ", "/"), func(b *testing.B) {
					r := newReach(b, d, dt)
					all, label := r.ways(b, o)
					kerneltest.MeasureRounds(b, all)
					best := fastest(all)
					mid, _, _ := stats.MedianInterval(kerneltest.Ratios(best, all[0]))
					b.ReportMetric(mid, "of-best")
					b.ReportMetric(0, "ns/op")
					line := fmt.Sprintf("%-20s auto %.2f us %s; best %.3f of that, %s;", name, 1e6*stats.Median(all[0].Samples), label, mid,
						best.Name)
					for _, f := range Families() {
						if of := ofFamily(all, f.Name()); len(of) > 0 {
							line += fmt.Sprintf(" %s %.2f,", fastest(of).Name, 1e6*stats.Median(fastest(of).Samples))
						}
					}
					fmt.Fprintln(os.Stderr, strings.TrimSuffix(line, ","))
					ofBest := func(s *kerneltest.Series) float64 {
						return stats.Median(best.Samples) / stats.Median(s.Samples)
					}
					fmt.Fprintf(os.Stderr, "  ways: %s\n", strings.Join(r.shares(b, o, all, ofBest), ", "))
				})
			}
		}
	}
}
