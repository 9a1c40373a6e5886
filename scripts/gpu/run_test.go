// Tests of the scripts for machines with a GPU.
package gpu_test

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// If the model can't be made, the section stops with exit code 1. A failed test step does not stop it.
func TestSectionEndsWithoutModel(t *testing.T) {
	for _, tc := range []struct {
		name, python string
		code         int
		bench        bool
	}{
		{"no model", "exit 7", 1, false},
		{"a model", "exit 0", 1, true}, // the tests fail even with a model
	} {
		t.Run(tc.name, func(t *testing.T) {
			dir := t.TempDir()
			script, err := os.ReadFile("run.sh")
			if err != nil {
				t.Fatal(err)
			}
			for path, text := range map[string]string{
				"run.sh": string(script), "gemmaudit": "#!/bin/sh\nexit 0\n", "bin/python3": "#!/bin/sh\n" + tc.python + "\n",
				"tests/mistral.test": "#!/bin/sh\nexit 1\n", "kernels/mistral/data": "",
			} {
				path = filepath.Join(dir, path)
				if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
					t.Fatal(err)
				}
			}
			cmd := exec.CommandContext(t.Context(), "bash", filepath.Join(dir, "run.sh"), "mistral")
			cmd.Env = append(os.Environ(), "PATH="+filepath.Join(dir, "bin")+":"+os.Getenv("PATH"), "OUT="+filepath.Join(dir, "out"),
				"MODEL=")
			out, err := cmd.CombinedOutput()
			var exit *exec.ExitError
			if !errors.As(err, &exit) || exit.ExitCode() != tc.code {
				t.Fatalf("%v, expected exit code %d:\n%s", err, tc.code, out)
			}
			if ran := strings.Contains(string(out), "== mistral-bench:"); ran != tc.bench {
				t.Errorf("the bench ran: %v, expected %v:\n%s", ran, tc.bench, out)
			}
		})
	}
}

// fake stands for the program: sweep makes its run file, diff and audit print a table.
const fake = `#!/bin/bash
case $1 in
version) echo 'gemmaudit v1 (abc of 2026-11-28, go1.26)' ;;
sweep)
  echo "$*" >>calls
  while [[ $1 != --out ]]; do shift; done
  touch "$2" ;;
diff) printf 'A is %s\n\nBy M, time of B / time of A\nbf16 1-16 1.1x\n\nSeries\n' "$4" ;;
audit) printf 'Series\ncuda:0/auto/bf16 3 0 0\nlisted are 2 of 9 rows: some\nconfirmed alternative m4\n' ;;
esac
`

// Sections that measure products are sweeps and comparisons of the program.
func TestSectionsCompare(t *testing.T) {
	dir := t.TempDir()
	script, err := os.ReadFile("run.sh")
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"run.sh": string(script), "gemmaudit": fake} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.CommandContext(t.Context(), "bash", filepath.Join(dir, "run.sh"),
		"reach", "sustained", "picks", "self", "quantised", "candidates")
	cmd.Env = append(os.Environ(), "OUT="+filepath.Join(dir, "out"))
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, want := range []string{
		"reach-named, cublas+cublaslt ÷ auto: bf16 1-16 1.1x\n", "reach-random, cublas+cublaslt ÷ auto-serial: By M",
		"reach-tall, cublas+cublaslt ÷ auto: By M",
		"reach-bytes, cublaslt-fast ÷ auto: By M", "sustained, cublas+cublaslt ÷ auto: By M", "picks, others ÷ auto: By M",
		"picks: alternative: listed are 2 of 9 rows", "self: 3 rows of auto are below", "confirmed alternative m4\n",
		"quantised, cublas ÷ auto: By M",
	} {
		if !strings.Contains(string(out), want) {
			t.Errorf("it did not print %q:\n%s", want, out)
		}
	}
	calls, err := os.ReadFile(filepath.Join(dir, "calls"))
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(string(calls), "\n"); n != 12 {
		t.Errorf("%d sweeps:\n%s", n, calls)
	}
	random := regexp.MustCompile(`--shape (m\d+n\d+k\d+,){124}m\d+n\d+k\d+ --dtype bf16,fp16,int8,fp8 --kernel auto,hopper`)
	if !random.Match(calls) {
		t.Errorf("picks draws no 125 products:\n%s", calls)
	}
	tall := regexp.MustCompile(`reach-tall\.db --shape (m\d{3,4}n(\d{3}|1[0-4]\d\d)k\d{4,5},){79}m\d+n\d+k\d+ --dtype bf16,fp16 `)
	if !tall.Match(calls) {
		t.Errorf("reach draws no 80 products of few columns and long K:\n%s", calls)
	}
}

// Tests and benchmarks that the script and the Makefile name exist.
func TestNamedTestsExist(t *testing.T) {
	have := map[string]bool{}
	named := regexp.MustCompile(`(Test|Benchmark|Fuzz)(?:\(([\w|]+)\)|([A-Z]\w+))\\?\$`)
	declared := regexp.MustCompile(`(?m)^func ((?:Test|Benchmark|Fuzz)\w+)\(`)
	err := filepath.WalkDir("../..", func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := os.ReadFile(path)
		for _, m := range declared.FindAllStringSubmatch(string(text), -1) {
			have[m[1]] = true
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range []string{"run.sh", "../../Makefile"} {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		count := 0
		for _, m := range named.FindAllStringSubmatch(string(text), -1) {
			for name := range strings.SplitSeq(m[2]+m[3], "|") {
				if count++; !have[m[1]+name] {
					t.Errorf("%s: no test is named %s%s", file, m[1], name)
				}
			}
		}
		if count < 12 {
			t.Errorf("%s: found %d names, expected at least 12", file, count)
		}
	}
}
