package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gemmaudit/gemmaudit/kernels/cuda/reach"
)

func TestRun(t *testing.T) {
	dir := t.TempDir()
	good, bad := filepath.Join(dir, "reach.jsonl"), filepath.Join(dir, "bad.jsonl")
	p := reach.Product{DType: "bf16", N: 4096, K: 4096, M: 8, Set: reach.Named}
	var rows []reach.Row
	for _, s := range []reach.Series{reach.Auto, reach.Blas, reach.BlasLt} {
		rows = append(rows, reach.Row{Product: p, Series: s, Label: "plan", Launches: 40,
			Samples: []reach.Sample{{US: 10, MHz: 1700}, {US: 10.1, MHz: 1710, Round: 1}}})
	}
	f, err := os.Create(good)
	if err == nil {
		err = reach.Write(f, reach.Header{Card: "NVIDIA H200"}, rows)
	}
	if err != nil || f.Close() != nil || os.WriteFile(bad, []byte("{}\n"), 0o644) != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args           []string
		code           int
		stdout, stderr string
	}{
		{[]string{good}, 0, "reach bf16 named nk            1-16              1     2..2   1.000    1.000  >= 1.12 MISS", ""},
		{[]string{bad}, 1, "", "bad.jsonl: line 1: format 0, expected 1\n"},
		{[]string{filepath.Join(dir, "none")}, 1, "", "no such file"},
		{[]string{"--help"}, 0, "usage: table REACH.jsonl\n", ""},
		{nil, 2, "", "table: 0 files, expected one\n"},
	} {
		var stdout, stderr strings.Builder
		if code := run(c.args, &stdout, &stderr); code != c.code || !strings.Contains(stdout.String(), c.stdout) ||
			!strings.Contains(stderr.String(), c.stderr) {
			t.Errorf("%v: code %d\n%s%s", c.args, code, stdout.String(), stderr.String())
		}
	}
}
