package cpu

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/gemmaudit/gemmaudit/kernels"
)

func openDevice(t *testing.T) *Device {
	t.Helper()
	d, err := Open(0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close() })
	return d
}

// librariesRequired is the environment variable that makes a missing library a failure.
const librariesRequired = "GEMMAUDIT_LIBRARIES_REQUIRED"

func libraryKernel(t *testing.T, name string) (*Device, kernels.Kernel) {
	t.Helper()
	d := openDevice(t)
	g, err := kernels.Find(d, kernels.GEMM, name)
	if err != nil && os.Getenv(librariesRequired) != "" {
		t.Fatalf("%v, and %s is set", err, librariesRequired)
	} else if err != nil {
		t.Skip(err)
	}
	return d, g
}

// A library must fail exactly the checks known for its version and instruction set; unknown versions must
// pass all.
func TestLibrariesPassGate(t *testing.T) {
	for _, name := range []string{"openblas", "onednn"} {
		for _, dt := range []kernels.DType{kernels.FP32, kernels.FP16, kernels.BF16, kernels.INT8} {
			t.Run(name+"/"+string(dt), func(t *testing.T) {
				d, g := libraryKernel(t, name)
				if err := g.Supports(kernels.CheckProblems(dt)[0]); err != nil {
					if t.Log(err); dt == kernels.FP32 {
						t.Error("fp32 was refused")
					}
					return
				}
				seen := map[kernels.CheckStep]bool{}
				run := func(check *kernels.GemmCheck) {
					t.Helper()
					_, err := check.Margin(t.Context(), d, g)
					var wrong *kernels.CheckError
					if errors.As(err, &wrong) {
						seen[wrong.Check] = true
						if known, ok := d.Spec().KnownFault(name, dt, wrong.Check); ok {
							t.Logf("known, %s: %v", known.Text, err)
							return
						}
					}
					if err != nil {
						t.Errorf("%s: %v", g.Describe(), err)
					}
				}
				for _, p := range kernels.CheckProblems(dt) {
					run(checked(t)(kernels.NewGemmCheck(p, 1)))
				}
				for _, b := range kernels.GateBatches(dt) {
					run(checked(t)(kernels.NewGemmCheck(b, 1)))
				}
				for _, p := range kernels.SpecialProblems(dt) {
					check := checked(t)(kernels.NewGemmCheck(p, 1))
					if dt != kernels.INT8 {
						check = check.Special()
					}
					run(check)
				}
				for _, b := range kernels.SpecialBatches(dt) {
					run(checked(t)(kernels.NewGemmCheck(b, 1)).Special())
				}
				for _, f := range d.Spec().Faults {
					for _, step := range f.Checks {
						if f.Kernel == name && f.DType == dt && !seen[step] {
							t.Errorf("%s: the known fault is gone: %s passes %s, of which it is said that %s", g.Describe(), dt, step,
								f.Text)
						}
					}
				}
			})
		}
	}
}

func outputOf(t *testing.T, d *Device, g kernels.Kernel, p kernels.Task, a kernels.Buffer, w kernels.Weights) []float64 {
	t.Helper()
	out := p.DType.Output()
	c, err := d.Alloc(int64(p.M * p.N * out.Size()))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	l, err := g.Bind(p, kernels.Operand{Buffer: a}, w, kernels.Operand{Buffer: c})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := d.Execute(t.Context(), []kernels.Launch{l}, 3); err != nil {
		t.Fatal(err)
	}
	raw, values := make([]byte, c.Bytes()), make([]float64, p.M*p.N)
	if err := c.Download(0, raw); err != nil {
		t.Fatal(err)
	}
	if err := kernels.Decode(out, raw, values); err != nil {
		t.Fatal(err)
	}
	return values
}

// Weights prepared for one M, layout and thread count must give the same rows for others.
func TestWeightsServeEveryM(t *testing.T) {
	const n, k, most = 129, 200, 70
	for _, name := range []string{"openblas", "onednn"} {
		for _, dt := range []kernels.DType{kernels.FP32, kernels.BF16, kernels.INT8} {
			t.Run(name+"/"+string(dt), func(t *testing.T) {
				d, g := libraryKernel(t, name)
				p := kernels.Task{Subject: kernels.Product(dt, n, k), M: 1}
				if err := g.Supports(p); err != nil {
					t.Skip(err)
				}
				a, err := d.Alloc(most * k * 4)
				if err != nil {
					t.Fatal(err)
				}
				defer a.Close()
				b, err := d.Alloc(n * k * 4)
				if err != nil {
					t.Fatal(err)
				}
				defer b.Close()
				// With integers, all summation orders give the same bits.
				if err := errors.Join(a.Fill(kernels.Integers, dt, most*k, 1), b.Fill(kernels.Integers, dt, n*k, 2)); err != nil {
					t.Fatal(err)
				}
				w, err := g.Prepare(p, b)
				if err != nil {
					t.Fatal(err)
				}
				defer w.Close()
				if w.Bytes() < n*k*int64(dt.Size()) {
					t.Errorf("weights hold %d bytes, less than B", w.Bytes())
				}
				first := outputOf(t, d, g, p, a, w)
				for _, m := range []int{2, 16, most} {
					for _, threads := range []int{0, 1} {
						p.M, p.Threads = m, threads
						for i, v := range outputOf(t, d, g, p, a, w)[:n] {
							if v != first[i] {
								t.Fatalf("m%d on %d threads: element (0,%d) is %g, with m1 %g", m, threads, i, v, first[i])
							}
						}
					}
				}
				p.N--
				if _, err := g.Bind(p, kernels.Operand{Buffer: a}, w, kernels.Operand{Buffer: a}); err == nil {
					t.Error("weights of another N were accepted")
				}
			})
		}
	}
}

func TestOneDNNNamesItsImplementation(t *testing.T) {
	d, g := libraryKernel(t, "onednn")
	p := kernels.Task{Subject: kernels.Product(kernels.FP32, 8, 8), M: 4}
	b, err := d.Alloc(4096)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	w, err := g.Prepare(p, b)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	l, err := g.Bind(p, kernels.Operand{Buffer: b}, w, kernels.Operand{Buffer: b, Offset: 512})
	if err != nil {
		t.Fatal(err)
	}
	if l.Label() == "" {
		t.Error("the launch has no label")
	}
	if v := d.Spec().Versions["onednn"]; !strings.Contains(v, ".") {
		t.Errorf("version is %q", v)
	}
}

// Launches from many process threads must share one team of the library.
func TestLibraryKeepsOneTeam(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("threads are counted in /proc")
	}
	d, g := libraryKernel(t, "onednn")
	const n = 256
	p := kernels.Task{Subject: kernels.Product(kernels.FP32, n, n), M: n}
	b, err := d.Alloc(3 * n * n * 4)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	w, err := g.Prepare(p, b)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	l, err := g.Bind(p, kernels.Operand{Buffer: b}, w, kernels.Operand{Buffer: b, Offset: 2 * n * n})
	if err != nil {
		t.Fatal(err)
	}
	tasks := func() int {
		entries, err := os.ReadDir("/proc/self/task")
		if err != nil {
			t.Skip(err)
		}
		return len(entries)
	}
	const callers = 24
	run := func() {
		if _, err := d.Execute(t.Context(), []kernels.Launch{l}, 1); err != nil {
			t.Error(err)
		}
	}
	run()
	before := tasks()
	var wg sync.WaitGroup
	done := make(chan struct{})
	for range callers {
		ran := make(chan struct{})
		wg.Go(func() {
			runtime.LockOSThread() // a separate thread, kept until the end
			run()
			close(ran)
			<-done
		})
		<-ran
	}
	// Go starts a few extra threads; a team per caller would double the count.
	if now := tasks(); now > before+callers+callers/2 && d.Threads() > 1 {
		t.Errorf("%d threads before, %d with %d callers", before, now, callers)
	}
	close(done)
	wg.Wait()
}

func buildFake(t *testing.T, flags ...string) string {
	t.Helper()
	cc, err := exec.LookPath("cc")
	if err != nil {
		t.Skip("no C compiler at test time")
	}
	out := filepath.Join(t.TempDir(), "libopenblas.so.0")
	args := append([]string{"-shared", "-fPIC", "-O1", "-o", out, "testdata/fake_openblas.c"}, flags...)
	if text, err := exec.Command(cc, args...).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	return out
}

// coreUnset unsets OpenBLAS's core type until the test ends.
func coreUnset(t *testing.T) {
	if v, set := os.LookupEnv(openblasCoreVariable); set {
		t.Setenv(openblasCoreVariable, v) // restores the variable at the end
		os.Unsetenv(openblasCoreVariable)
	}
}

// knownFault reports whether a check failed because of a known library bug.
func knownFault(d *Device, err error) bool {
	_, ok := d.Spec().FaultBehind(err)
	return ok
}

// The test covers the bf16 path, which distributions' builds lack.
func TestOpenBLASWithSBGEMM(t *testing.T) {
	coreUnset(t)
	t.Setenv("GEMMAUDIT_OPENBLAS", buildFake(t))
	d, g := libraryKernel(t, "openblas")
	s, err := kernels.CheckKernel(t.Context(), d, g, kernels.BF16, 1)
	if err != nil {
		t.Fatal(err)
	}
	if s.Passed == 0 {
		t.Fatal(s.Skipped[0])
	}
	if got, want := g.Describe(), "OpenBLAS 9.9.9 Fake, packs B in every call"; got != want {
		t.Errorf("describes itself as %q, want %q", got, want)
	}
	if got, want := d.Spec().Versions["openblas"], "9.9.9 Fake"; got != want {
		t.Errorf("version is %q, want %q", got, want)
	}
	b, err := d.Alloc(4096)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	p := kernels.Task{Subject: kernels.Product(kernels.BF16, 2, 2), M: 2}
	w, err := g.Prepare(p, b)
	if err != nil {
		t.Fatal(err)
	}
	l, err := g.Bind(p, kernels.Operand{Buffer: b}, w, kernels.Operand{Buffer: b, Offset: 64})
	if err != nil {
		t.Fatal(err)
	}
	want := "sbgemm, C rounded on one thread"
	if d.Threads() > 1 {
		want += ", threads: 1, the build's limit"
	}
	if l.Label() != want {
		t.Errorf("label is %q, want %q", l.Label(), want)
	}
}

func TestMissingLibraries(t *testing.T) {
	dir := t.TempDir()
	text := filepath.Join(dir, "notes.so")
	if err := os.WriteFile(text, []byte("not a library"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name, env, path string
		want            []string
	}{
		{"openblas", "GEMMAUDIT_OPENBLAS", "/nonexistent/libopenblas.so",
			[]string{"/nonexistent/libopenblas.so", "GEMMAUDIT_OPENBLAS is set"}},
		{"onednn", "GEMMAUDIT_ONEDNN", text, []string{"notes.so", "GEMMAUDIT_ONEDNN is set"}},
		{"openblas", "GEMMAUDIT_OPENBLAS", dir, []string{filepath.Join(dir, sharedNames("openblas", "0")[0])}},
	} {
		t.Setenv(c.env, c.path)
		d := openDevice(t)
		_, err := kernels.Find(d, kernels.GEMM, c.name)
		if err == nil {
			t.Errorf("%s was found at %s", c.name, c.path)
			continue
		}
		for _, want := range c.want {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%v: expected it to contain %q", err, want)
			}
		}
	}
	fake := buildFake(t)
	for _, c := range []struct{ name, env, path, want string }{
		{"onednn", "GEMMAUDIT_ONEDNN", fake, "it is not oneDNN"},
		{"openblas", "GEMMAUDIT_OPENBLAS", buildFake(t, "-Dcblas_sgemm=other"), "it has no cblas_sgemm"},
		{"openblas", "GEMMAUDIT_OPENBLAS", buildFake(t, "-Dopenblas_set_num_threads=other"), "it has no openblas_set_num_threads"},
		{"openblas", "GEMMAUDIT_OPENBLAS", buildFake(t, `-DCONFIG="OpenBLAS 1.0 USE64BITINT"`), "64-bit integers"},
	} {
		t.Setenv(c.env, c.path)
		d := openDevice(t)
		if _, err := kernels.Find(d, kernels.GEMM, c.name); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s at a foreign library: %v, want it to contain %q", c.name, err, c.want)
		}
	}
}

func TestMissingLibraryHint(t *testing.T) {
	t.Setenv("GEMMAUDIT_NOSUCH", "")
	name := libraryName{kernel: "nosuch", env: "GEMMAUDIT_NOSUCH", sonames: []string{"libnosuch-gemmaudit.so.7"},
		install: "install libnosuch"}
	_, err := name.open()
	if err == nil {
		t.Fatal("a library that doesn't exist was opened")
	}
	for _, want := range []string{"libnosuch-gemmaudit.so.7", "install libnosuch, or set GEMMAUDIT_NOSUCH to its path"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("reason %q lacks %q", err, want)
		}
	}
}

func TestLibrariesRefuse(t *testing.T) {
	for _, c := range []struct {
		kernel string
		p      kernels.Task
		want   string
	}{
		{"openblas", kernels.Task{Subject: kernels.Product(kernels.INT8, 1, 1), M: 1}, "only fp32 and bf16"},
		{"openblas", kernels.Task{Subject: kernels.Product(kernels.FP32, 1, 1), M: 1, LDA: 1 << 33}, "32-bit integers"},
		{"onednn", kernels.Task{Subject: kernels.Product(kernels.FP8, 1, 1), M: 1}, "CPU kernels compute"},
	} {
		_, g := libraryKernel(t, c.kernel)
		err := g.Supports(c.p)
		var u *kernels.Unsupported
		if !errors.As(err, &u) || !strings.Contains(u.Reason, c.want) {
			t.Errorf("%s %v: %v, want a refusal with %q", c.kernel, c.p.Shape(), err, c.want)
		}
	}
}

func TestTwoVersionsOfALibrary(t *testing.T) {
	coreUnset(t)
	config := func(version string) string { return `-DCONFIG="OpenBLAS ` + version + ` MAX_THREADS=1"` }
	right, other := buildFake(t, config("1.0")), buildFake(t, config("2.0"))
	wrong := buildFake(t, config("2.1"), "-DBIAS=1")
	rebuilt, unnameable := buildFake(t, config("1.0"), "-g"), buildFake(t, config("a,b"))
	digest := func(path string) string {
		sum, err := kernels.FileSHA256(path)
		if err != nil {
			t.Fatal(err)
		}
		return " sha256 " + sum[:12]
	}
	if digest(right) == digest(rebuilt) {
		t.Fatal("two builds are one file")
	}
	for _, c := range []struct {
		paths    []string
		names    []string
		versions []string
		missing  string
	}{
		{paths: []string{right}, names: []string{"openblas"}, versions: []string{"1.0 Fake"}},
		{paths: []string{filepath.Dir(right)}, names: []string{"openblas"}, versions: []string{"1.0 Fake"}},
		{paths: []string{right, other}, names: []string{"openblas@1.0", "openblas@2.0"}, versions: []string{"1.0 Fake", "2.0 Fake"}},
		{paths: []string{other, right}, names: []string{"openblas@2.0", "openblas@1.0"}, versions: []string{"2.0 Fake", "1.0 Fake"}},
		{paths: []string{right, rebuilt}, names: []string{"openblas@1", "openblas@2"},
			versions: []string{"1.0 Fake" + digest(right), "1.0 Fake" + digest(rebuilt)}},
		{paths: []string{right, unnameable}, names: []string{"openblas@1", "openblas@2"},
			versions: []string{"1.0 Fake" + digest(right), "a,b Fake" + digest(unnameable)}},
		{paths: []string{right, right}, missing: "is a file that was given before"},
		{paths: []string{right, "/nonexistent/lib.so"}, missing: "/nonexistent/lib.so"},
	} {
		devices, missing := Provider{}.WithLibraries(map[string][]string{"openblas": c.paths}).Open()
		if len(devices) != 1 {
			t.Fatal(missing)
		}
		d := devices[0].(*Device)
		t.Cleanup(func() { d.Close() })
		var names, versions []string
		for _, g := range d.Kernels(kernels.GEMM) {
			if strings.HasPrefix(g.Name(), "openblas") {
				names, versions = append(names, g.Name()), append(versions, d.Spec().Versions[g.Name()])
			}
		}
		if !slices.Equal(names, c.names) || !slices.Equal(versions, c.versions) {
			t.Errorf("%v: kernels %v of versions %v", c.paths, names, versions)
		}
		_, err := kernels.Find(d, kernels.GEMM, "openblas")
		if c.missing != "" && (err == nil || !strings.Contains(err.Error(), c.missing)) {
			t.Errorf("%v: %v, want %q", c.paths, err, c.missing)
		}
		fewer, err := d.WithThreads(1)
		if err != nil {
			t.Fatal(err)
		}
		if len(fewer.Kernels(kernels.GEMM)) != len(d.Kernels(kernels.GEMM)) {
			t.Errorf("%v: %d kernels on one thread, %d on all", c.paths, len(fewer.Kernels(kernels.GEMM)), len(d.Kernels(kernels.GEMM)))
		}
		fewer.Close()
	}
	devices, _ := Provider{}.WithLibraries(map[string][]string{"openblas": {right, wrong}}).Open()
	d := devices[0].(*Device)
	t.Cleanup(func() { d.Close() })
	for name, sound := range map[string]bool{"openblas@1.0": true, "openblas@2.1": false} {
		g, err := kernels.Find(d, kernels.GEMM, name)
		if err != nil {
			t.Fatal(err)
		}
		var wrong *kernels.CheckError
		if _, err := kernels.CheckKernel(t.Context(), d, g, kernels.FP32, 1); errors.As(err, &wrong) == sound || sound && err != nil {
			t.Errorf("%s: the gate says %v", name, err)
		}
	}
}

// A name without a slash and "." must find the working folder, not the loader's system folders.
func TestLibraryInWorkingFolder(t *testing.T) {
	coreUnset(t)
	fake := buildFake(t, `-DCONFIG="OpenBLAS 7.0 MAX_THREADS=1"`)
	t.Chdir(filepath.Dir(fake))
	for _, path := range []string{filepath.Base(fake), "."} {
		devices, missing := Provider{}.WithLibraries(map[string][]string{"openblas": {path}}).Open()
		if len(devices) != 1 {
			t.Fatal(missing)
		}
		d := devices[0].(*Device)
		t.Cleanup(func() { d.Close() })
		if got := d.Spec().Versions["openblas"]; got != "7.0 Fake" {
			t.Errorf("%q opened version %q, missing %v", path, got, d.Missing())
		}
	}
}

func TestTwoCopiesOfRealLibraries(t *testing.T) {
	if testing.Short() {
		t.Skip("two copies of each library run their whole gate")
	}
	for _, name := range []string{"openblas", "onednn"} {
		t.Run(name, func(t *testing.T) {
			libraryKernel(t, name)
			maps, err := os.ReadFile("/proc/self/maps")
			if err != nil {
				t.Skip("the system does not tell where the library lies")
			}
			// Fakes of other tests are still mapped, but their files are deleted.
			var file string
			var text []byte
			for _, file = range regexp.MustCompile(`/\S*lib(?:`+map[string]string{"openblas": "openblas", "onednn": "dnnl"}[name]+`)\S*`).
				FindAllString(string(maps), -1) {
				if text, err = os.ReadFile(file); err == nil {
					break
				}
			}
			if err != nil {
				t.Fatal(err)
			}
			copied := filepath.Join(t.TempDir(), "copy.so")
			if err := os.WriteFile(copied, text, 0o755); err != nil {
				t.Fatal(err)
			}
			devices, _ := Provider{}.WithLibraries(map[string][]string{name: {file, copied}}).Open()
			d := devices[0].(*Device)
			defer d.Close()
			for _, version := range []string{"1", "2"} {
				g, err := kernels.Find(d, kernels.GEMM, kernels.VersionedName(name, version))
				if err != nil {
					t.Fatal(err)
				}
				if s, err := kernels.CheckKernel(t.Context(), d, g, kernels.FP32, 1); err != nil || s.Passed == 0 {
					t.Errorf("%s: %+v, %v", g.Name(), s, err)
				}
			}
		})
	}
}
