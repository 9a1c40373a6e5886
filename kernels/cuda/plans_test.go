package cuda

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gemmaudit/gemmaudit/kernels"
)

var updatePlans = flag.Bool("update-plans", false, "write testdata/plans.txt.gz anew")

// TestPlansAreThoseOfToday holds what every family plans, over a grid of products and
// GPUs, against testdata/plans.txt.gz: a choice that changes is to be seen, not found
// out. -update-plans accepts what is planned.
func TestPlansAreThoseOfToday(t *testing.T) {
	var text bytes.Buffer
	for _, a := range testArchs {
		for _, d := range kernels.DTypes() {
			writeGemmPlans(t, &text, a, d)
			if d == kernels.FP32 || d == kernels.FP16 || d == kernels.BF16 {
				writeAttentionPlans(t, &text, a, d)
				writeFusedPlans(&text, a, d)
			}
		}
	}
	name := filepath.Join("testdata", "plans.txt.gz")
	if *updatePlans {
		var packed bytes.Buffer
		w, err := gzip.NewWriterLevel(&packed, gzip.BestCompression)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write(text.Bytes()); err != nil {
			t.Fatal(err)
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, packed.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	f, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	r, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	var want bytes.Buffer
	if _, err := want.ReadFrom(r); err != nil {
		t.Fatal(err)
	}
	differ(t, text.String(), want.String())
}

// differ reports the lines in which two texts differ, the first ones.
func differ(t *testing.T, got, want string) {
	t.Helper()
	if got == want {
		return
	}
	gotLines, wantLines := strings.Split(got, "\n"), strings.Split(want, "\n")
	if len(gotLines) != len(wantLines) {
		t.Errorf("%d lines, want %d", len(gotLines), len(wantLines))
	}
	changed := 0
	for i := range min(len(gotLines), len(wantLines)) {
		if gotLines[i] == wantLines[i] {
			continue
		}
		if changed++; changed <= 20 {
			t.Errorf("line %d:\n got %s\nwant %s", i+1, gotLines[i], wantLines[i])
		}
	}
	t.Errorf("%d lines differ", changed)
}

// writeGemmPlans writes a line for each product: what every family plans. Below them
// stand digests of the times that the models expect of all candidates.
func writeGemmPlans(t *testing.T, w *bytes.Buffer, a arch, d kernels.DType) {
	fmt.Fprintf(w, "%d with %d multiprocessors, %s\n", a.cc, a.sms, d)
	times := make([]bytes.Buffer, len(families))
	for _, nk := range [][2]int{{14336, 4096}, {4096, 4096}, {4096, 14336}, {6144, 4096}, {28672, 8192}, {1000, 1000}, {32000, 2048}, {130, 264}, {64, 32768}} {
		for _, m := range []int{1, 2, 5, 8, 9, 16, 17, 31, 64, 65, 100, 128, 190, 256, 257, 400, 512, 513, 1000, 1024, 2000, 3333, 4096, 8192, 20000} {
			for _, o := range []alignment{{16, 16}, {d.Size(), d.Output().Size()}} {
				p := kernels.Problem{Shape: kernels.Shape{M: m, N: nk[0], K: nk[1]}, DType: d}
				if o.a < 16 {
					if m%3 != 0 && m != 1 && m != 4096 {
						continue
					}
					p.LDA, p.LDC = nk[1]+1, nk[0]+1
				}
				p, err := p.Normalized()
				if err != nil {
					t.Fatal(err)
				}
				q := gemmProblem{p, o}
				fmt.Fprintf(w, "m%d n%d k%d %d", m, nk[0], nk[1], o.a)
				for i, f := range families {
					if f.Supports(a, q) != "" {
						continue
					}
					fmt.Fprintf(w, "; %s %s", f.Name(), f.Plan(a, q).label)
					if c, ok := f.(chooser[gemmProblem, addresses]); ok {
						for _, plan := range c.Candidates(a, q) {
							fmt.Fprintf(&times[i], "%s %.6g\n", plan.label, plan.seconds)
						}
					}
				}
				best, _, ok := pick(families, a, q)
				if !ok {
					fmt.Fprintln(w, "; none")
					continue
				}
				fmt.Fprintf(w, "; auto %s\n", best.Name())
			}
		}
	}
	for i, f := range families {
		fmt.Fprintf(w, "%s candidates %x\n", f.Name(), sha256.Sum256(times[i].Bytes()))
	}
}

// writeAttentionPlans does the same for attention.
func writeAttentionPlans(t *testing.T, w *bytes.Buffer, a arch, d kernels.DType) {
	var times bytes.Buffer
	for i, p := range attentionProblems(t, d) {
		fmt.Fprintf(w, "attention %d", i)
		for _, f := range attentionFamilies {
			if f.Supports(a, p) != "" {
				continue
			}
			plan := f.Plan(a, p)
			fmt.Fprintf(w, "; %s %s", f.Name(), plan.label)
			fmt.Fprintf(&times, "%s %.6g\n", plan.label, plan.seconds)
		}
		if best, _, ok := pick(attentionFamilies, a, p); ok {
			fmt.Fprintf(w, "; auto %s", best.Name())
		}
		fmt.Fprintln(w)
	}
	fmt.Fprintf(w, "attention times %x\n", sha256.Sum256(times.Bytes()))
}

// writeFusedPlans does the same for the fused products of a decoder.
func writeFusedPlans(w *bytes.Buffer, a arch, d kernels.DType) {
	for _, n := range []int{1, 2, 17, 4096, 28672, 128256} {
		for _, k := range []int{1, 9, 1000, 4096, 14336, 100000} {
			for _, norm := range []bool{false, true} {
				p := kernels.FusedProduct{N: n, K: k, DType: d, Norm: norm, Gated: n%2 == 0, Epsilon: 1e-5}
				if fusedReason(a, p) != "" {
					continue
				}
				_, label := fusedPlan(a, p, fusedAddresses{ldb: packedLDB(d, k)})
				fmt.Fprintf(w, "fused n%d k%d norm %v: %s\n", n, k, norm, label)
			}
		}
	}
}
