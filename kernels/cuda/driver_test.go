//go:build cuda

package cuda

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/cublas"
)

// childEnv makes a test binary run one scenario instead of its tests, because a process can load only one
// driver.
const childEnv = "GEMMAUDIT_TEST_SCENARIO"

func TestMain(m *testing.M) {
	if name := os.Getenv(childEnv); name != "" {
		scenarios[name]()
		os.Exit(0)
	}
	os.Exit(m.Run())
}

var scenarios = map[string]func(){
	"open": func() {
		devices, missing := Provider{}.Open()
		for _, d := range devices {
			s := d.Spec()
			fmt.Println(s.ID, s.Name, s.Features, s.Units, s.MemoryBytes, s.LastLevelCacheBytes, s.UUID, s.Versions["cuda driver api"])
		}
		for _, m := range missing {
			fmt.Printf("%s is missing: %s\n", m.Name, m.Reason)
			fmt.Println("broken:", m.Broken)
		}
		report(kernels.NewRegistry(Provider{}).Close())
	},
	"ceilings": func() {
		devices, _ := Provider{}.Open()
		for _, d := range devices {
			c, err := d.Ceilings(context.Background())
			report(err)
			fmt.Println("copies:", c.CopyBandwidth > 0)
			_, err = d.Alloc(1)
			report(err, d.Close())
		}
	},
	"work":  func() { work() },
	"again": func() { work(); work() },
	"bind":  bindAll,
}

// bindAll binds and launches the gate's problems with every kernel.
func bindAll() {
	devices, _ := Provider{}.Open()
	for _, d := range devices {
		bound := map[string]int{}
		for _, g := range d.Kernels(kernels.GEMM) {
			for _, dt := range kernels.DTypes() {
				problems := kernels.CheckProblems(dt)
				for _, m := range []int{1, 8, 64, 300, 4096} {
					for _, layout := range []kernels.Layout{kernels.RowMajor, kernels.Transposed} {
						problems = append(problems, kernels.Task{Subject: kernels.Product(dt, 1024, 512).In(layout), M: m})
					}
				}
				for _, p := range problems {
					if g.Supports(p) != nil {
						continue
					}
					if err := bindOne(d, g, p); err != nil {
						fmt.Printf("error: %s %s %v: %v\n", g.Name(), dt, p.Shape(), err)
					} else {
						bound[g.Name()]++
					}
				}
			}
		}
		fmt.Println(d.Spec().Features, bound)
	}
}

func bindOne(d kernels.Device, g kernels.Kernel, p kernels.Task) (err error) {
	p, err = p.Normalized()
	if err != nil {
		return err
	}
	alloc := func(elements int, t kernels.DType) kernels.Buffer {
		b, e := d.Alloc(int64(elements * t.Size()))
		err = errors.Join(err, e)
		return b
	}
	rowsB := p.K
	if p.Layout == kernels.Transposed {
		rowsB = p.N
	}
	a, b, c := alloc((p.M+1)*p.LDA, p.DType), alloc(rowsB*p.LDB, p.DType), alloc((p.M+1)*p.LDC, p.DType.Output())
	if err != nil {
		return err
	}
	w, err := g.Prepare(p, b)
	if err != nil {
		return err
	}
	l, err := g.Bind(p, kernels.Operand{Buffer: a, Offset: p.LDA}, w, kernels.Operand{Buffer: c, Offset: p.LDC})
	if err == nil {
		_, err = d.Execute(context.Background(), []kernels.Launch{l}, 1)
	}
	return errors.Join(err, w.Close(), a.Close(), b.Close(), c.Close())
}

func work() {
	devices, missing := Provider{}.Open()
	for _, m := range missing {
		fmt.Printf("%s is missing: %s\n", m.Name, m.Reason)
	}
	for _, d := range devices {
		p := kernels.Task{Subject: kernels.Product(kernels.FP16, 64, 64), M: 64}
		var buffers []kernels.Buffer
		alloc := func(bytes int64) kernels.Buffer {
			b, err := d.Alloc(bytes)
			report(err)
			if err == nil {
				report(b.Upload(0, make([]byte, 16)), b.Download(0, make([]byte, 16)), b.Fill(kernels.Normal, kernels.FP16, 8, 1))
				buffers = append(buffers, b)
			}
			return b
		}
		a, b, c := alloc(8192), alloc(8192), alloc(8192)
		_, err := d.Alloc(1 << 40)
		report(err)
		for _, g := range d.Kernels(kernels.GEMM) {
			if a == nil || b == nil || c == nil || g.Supports(p) != nil {
				continue
			}
			w, err := g.Prepare(p, b)
			report(err)
			if err != nil {
				continue
			}
			l, err := g.Bind(p, kernels.Operand{Buffer: a}, w, kernels.Operand{Buffer: c})
			report(err)
			if err == nil {
				span, err := d.Execute(context.Background(), []kernels.Launch{l}, 1200)
				report(err)
				if err == nil {
					fmt.Printf("%s took %.1f ms\n", g.Name(), span.Seconds*1e3)
				}
			}
			report(w.Close())
		}
		for _, b := range buffers {
			report(b.Close())
		}
		report(d.Close(), d.Close())
	}
	fmt.Println("done")
}

func report(errs ...error) {
	for _, err := range errs {
		if err != nil {
			fmt.Println("error:", err, "lost:", errors.Is(err, kernels.ErrDeviceLost))
		}
	}
}

// fakeDriver compiles testdata/fake_driver.c and returns the folder of its
// libcuda.so.1.
func fakeDriver(t *testing.T, options ...string) string {
	t.Helper()
	cc, err := exec.LookPath("cc")
	if err != nil {
		t.Skip("no C compiler here to build a fake driver with")
	}
	source := filepath.Join("testdata", "fake_driver.c")
	if _, err := os.Stat(source); err != nil {
		t.Skipf("the sources are not here: %v", err)
	}
	dir := t.TempDir()
	args := append(options, "-O1", "-I"+filepath.Join("driver", "include"), source)
	compile(t, cc, filepath.Join(dir, "libcuda.so.1"), args...)
	return dir
}

var compiled sync.Map

func compile(t *testing.T, cc, library string, args ...string) {
	t.Helper()
	key := fmt.Sprint(cc, args)
	if made, ok := compiled.Load(key); ok {
		if err := os.WriteFile(library, made.([]byte), 0o755); err != nil {
			t.Fatal(err)
		}
		return
	}
	args = slices.Concat(args, []string{"-shared", "-fPIC", "-Wall", "-Wextra", "-Werror", "-o", library})
	if out, err := exec.Command(cc, args...).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	made, err := os.ReadFile(library)
	if err != nil {
		t.Fatal(err)
	}
	compiled.Store(key, made)
}

func child(t *testing.T, scenario, dir string, env ...string) (stdout, stderr string) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	// A real library would crash with a fake driver.
	cmd.Env = append(append(os.Environ(), childEnv+"="+scenario, "LD_LIBRARY_PATH="+dir, cublas.Env+"="+filepath.Join(dir, "none.so")),
		env...)
	if err := cmd.Run(); err != nil {
		t.Errorf("%s %v: %v\n%s%s", scenario, env, err, out.String(), errs.String())
	}
	return out.String(), errs.String()
}

func TestUnusableDrivers(t *testing.T) {
	sound := fakeDriver(t)
	lacking := fakeDriver(t, "-DcuTensorMapEncodeTiled=other")
	unnamed := fakeDriver(t, "-DcuInit=other")
	broken := t.TempDir()
	if err := os.WriteFile(filepath.Join(broken, "libcuda.so.1"), []byte("no library"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name, dir, env, want string
	}{
		{"none", t.TempDir(), "", "cuda is missing: no NVIDIA driver: libcuda.so.1: cannot open shared object file"},
		{"no library", broken, "", "cuda is missing: no NVIDIA driver: "},
		{"old", sound, "FAKE_CUDA_VERSION=11040", "cuda is missing: the driver is for CUDA 11.4, expected at least 12.0 (driver 525)"},
		{"lacks a function", lacking, "", "lacks cuTensorMapEncodeTiled"},
		{"old and lacks a function", lacking, "FAKE_CUDA_VERSION=11040", "the driver is for CUDA 11.4"},
		{"no cuInit", unnamed, "", "has no cuInit"},
		{"no GPU", sound, "FAKE_CUDA_FAIL=cuInit:1:100", "there is a driver but no GPU, or CUDA_VISIBLE_DEVICES hides it"},
		{"stub", sound, "FAKE_CUDA_FAIL=cuInit:1:34", "the toolkit's stub comes first on the library path"},
		{"mismatch", sound, "FAKE_CUDA_FAIL=cuInit:1:803", "libcuda and the kernel module are of different versions"},
		{"does not start", sound, "FAKE_CUDA_FAIL=cuInit:1:999",
			"cuda is missing: the driver does not start: fake error 999 (CUDA_ERROR_FAKE)"},
		{"count fails", sound, "FAKE_CUDA_FAIL=cuDeviceGetCount:1:3", "cuda is missing: the driver does not count its GPUs: fake error 3"},
		{"zero GPUs", sound, "FAKE_CUDA_DEVICES=0", "cuda is missing: the driver has no GPU to offer"},
		{"too old a GPU", sound, "FAKE_CUDA_CAPABILITY=70",
			"cuda:0 is missing: Fake GPU 0 has compute capability 7.0, expected at least 7.5 (Turing)"},
		{"prohibited", sound, "FAKE_CUDA_MODE=2", "cuda:0 is missing: Fake GPU 0 is in compute mode prohibited"},
		{"no context", sound, "FAKE_CUDA_FAIL=cuDevicePrimaryCtxRetain:1:2",
			"cuda:0 is missing: create a context on Fake GPU 0: fake error 2 (CUDA_ERROR_OUT_OF_MEMORY)"},
	} {
		t.Run(c.name, func(t *testing.T) {
			out, _ := child(t, "open", c.dir, c.env)
			if c.dir != sound && strings.HasPrefix(out, "cuda:0 ") {
				t.Skip("this machine has a driver of its own where the loader looks last")
			}
			if !strings.Contains(out, c.want) {
				t.Errorf("got %q, want %q in it", out, c.want)
			}
			none := slices.Contains([]string{"none", "no library", "no GPU", "zero GPUs", "stub"}, c.name)
			if broken := strings.Contains(out, "broken: true"); broken == none {
				t.Errorf("broken is %v: %q", broken, out)
			}
		})
	}
}

func TestEveryPlanBinds(t *testing.T) {
	dir := fakeDriver(t)
	for _, capability := range []int{75, 80, 86, 89, 90, 100, 120} {
		out, _ := child(t, "bind", dir, fmt.Sprintf("FAKE_CUDA_CAPABILITY=%d", capability))
		t.Log(out)
		if strings.Contains(out, "error:") || !strings.Contains(out, "naive:") {
			t.Errorf("on %d:\n%s", capability, out)
		}
	}
}

func TestOneOfTwoGPUs(t *testing.T) {
	out, _ := child(t, "open", fakeDriver(t), "FAKE_CUDA_DEVICES=2", "FAKE_CUDA_FAIL=cuDevicePrimaryCtxRetain:1:46")
	for _, want := range []string{
		"cuda:0 is missing: create a context on Fake GPU 0: fake error 46",
		"cuda:1 Fake GPU 1 [sm_90a] 132 1073741824 52428800 GPU-abababab-abab-abab-abab-ababababab01 12.4\n",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("got %q, want %q in it", out, want)
		}
	}
}

// Errors that make a context unusable lose the device, and it still closes cleanly.
func TestFailingDriver(t *testing.T) {
	dir := fakeDriver(t)
	for _, c := range []struct {
		name, fail string
		want       []string
		lost       bool
	}{
		{"sound", "",
			[]string{"auto took 1.5 ms",
				"allocate 1099511627776 bytes (536870912 of 1073741824 are free): fake error 2 (CUDA_ERROR_OUT_OF_MEMORY) lost: false"},
			false},
		{"out of memory", "cuMemAlloc_v2:2:2", []string{"cuda:0: allocate 8192 bytes"}, false},
		{"launch refused", "cuLaunchKernelEx:900:701", []string{"cuda:0: launch ", "m64 n64 k64", "fake error 701"}, false},
		{"illegal address", "cuStreamSynchronize:9:700",
			[]string{"device lost: cuda:0: run ", "fake error 700 (CUDA_ERROR_FAKE); a new process can use it again lost: true"}, true},
		{"memory error", "cuMemcpyDtoH_v2:2:214", []string{"device lost: cuda:0: download 16 bytes: fake error 214"}, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			out, _ := child(t, "work", dir, "FAKE_CUDA_FAIL="+c.fail)
			for _, want := range append(c.want, "done") {
				if !strings.Contains(out, want) {
					t.Errorf("want %q in\n%s", want, out)
				}
			}
			if lost := strings.Contains(out, "lost: true"); lost != c.lost {
				t.Errorf("lost is %v, want %v:\n%s", lost, c.lost, out)
			}
		})
	}
	// After the loss the context is reset, and the process can open the device again if the driver allows it.
	out, _ := child(t, "again", dir, "FAKE_CUDA_FAIL=cuMemcpyDtoH_v2:2:700")
	if _, second, _ := strings.Cut(out, "done"); !strings.Contains(second, "auto took") || strings.Contains(second, "lost: true") {
		t.Errorf("the second device is not usable:\n%s", out)
	}
}

// Every failing driver call gives an error, without crash or hang.
func TestFaultAtEveryCall(t *testing.T) {
	if testing.Short() {
		t.Skip("hundreds of processes")
	}
	dir := fakeDriver(t)
	_, counts := child(t, "work", dir, "FAKE_CUDA_TRACE=1")
	calls := map[string]int{}
	for line := range strings.Lines(counts) {
		var name string
		var n int
		if _, err := fmt.Sscanf(line, "calls %s %d", &name, &n); err == nil {
			calls[name] = n
		}
	}
	if len(calls) < 25 {
		t.Fatalf("only %d functions were called:\n%s", len(calls), counts)
	}
	for _, name := range slices.Sorted(maps.Keys(calls)) {
		for _, n := range ordinals(calls[name]) {
			for _, code := range []int{801, 719} {
				fail := fmt.Sprintf("FAKE_CUDA_FAIL=%s:%d:%d", name, n, code)
				out, _ := child(t, "work", dir, fail)
				if !strings.Contains(out, fmt.Sprintf("fake error %d", code)) && name != "cuMemGetInfo_v2" &&
					name != "cuDriverGetVersion" && name != "cuDeviceGetPCIBusId" && name != "cuDeviceGetUuid" {
					t.Errorf("%s: nothing is told of it:\n%s", fail, out)
				}
				if code != 719 && strings.Contains(out, "lost: true") {
					t.Errorf("%s: the device is lost:\n%s", fail, out)
				}
			}
		}
	}
}

func TestFailingCopy(t *testing.T) {
	dir := fakeDriver(t)
	for _, c := range []struct{ fail, want, not string }{
		{"", "copies: true", "error:"},
		{"cuMemcpyDtoDAsync_v2:1:801", "copy memory: launch 0: fake error 801 (CUDA_ERROR_FAKE) lost: false", "lost: true"},
		{"cuMemcpyDtoDAsync_v2:1:700", "device lost: cuda:0: ", "lost: false"},
	} {
		out, _ := child(t, "ceilings", dir, "FAKE_CUDA_FAIL="+c.fail)
		if !strings.Contains(out, c.want) || strings.Contains(out, c.not) {
			t.Errorf("%s: want %q and not %q in\n%s", c.fail, c.want, c.not, out)
		}
	}
}

// If the context can't be made current at close, it is released as a whole. Nothing is destroyed in the
// thread's other context.
func TestCloseInAnotherContext(t *testing.T) {
	dir := fakeDriver(t)
	last := func(env ...string) map[string]int {
		_, trace := child(t, "work", dir, append(env, "FAKE_CUDA_TRACE=1")...)
		calls := map[string]int{}
		for line := range strings.Lines(trace) {
			var name string
			var n int
			if _, err := fmt.Sscanf(line, "calls %s %d", &name, &n); err == nil {
				calls[name] = n
			}
		}
		return calls
	}
	sound := last()
	if sound["cuStreamDestroy_v2"] != 1 || sound["cuDevicePrimaryCtxRelease_v2"] != 1 {
		t.Fatalf("a sound end: %v", sound)
	}
	failed := last(fmt.Sprintf("FAKE_CUDA_FAIL=cuCtxSetCurrent:%d:2", sound["cuCtxSetCurrent"]))
	if failed["cuStreamDestroy_v2"] != 0 || failed["cuModuleUnload"] != 0 || failed["cuDevicePrimaryCtxRelease_v2"] != 1 {
		t.Errorf("destroyed %d streams, unloaded %d modules, released %d contexts: expected 0, 0 and 1",
			failed["cuStreamDestroy_v2"], failed["cuModuleUnload"], failed["cuDevicePrimaryCtxRelease_v2"])
	}
}

func ordinals(n int) []int {
	var out []int
	for i := 1; i < n; i = i*2 + 1 {
		out = append(out, i)
	}
	return append(out, n)
}
