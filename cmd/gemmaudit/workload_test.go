package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gemmaudit/gemmaudit/results"
	"github.com/gemmaudit/gemmaudit/sweep"
)

// A workload of too many products must keep the most frequent ones and count the others.
func TestWorkloadIsBounded(t *testing.T) {
	const beyond = 10
	line := func(m, n int) string { return fmt.Sprintf("GemmTunableOp_float_TN,tn_%d_%d_64_ld_64_64_%d\n", n, m, n) }
	var all, often strings.Builder
	for i := range results.MostRecorded + beyond {
		all.WriteString(line(1+i%256, 64+i/256))
	}
	last := results.MostRecorded + beyond - 1
	often.WriteString(line(1+last%256, 64+last/256))
	path := filepath.Join(t.TempDir(), "untuned.csv")
	if err := os.WriteFile(path, []byte(all.String()+often.String()), 0o644); err != nil {
		t.Fatal(err)
	}
	var notes []string
	f := planFlags{shapesFrom: []string{path}, changed: func(flag string) bool { return flag == "shapes-from" },
		note: func(format string, args ...any) { notes = append(notes, fmt.Sprintf(format, args...)) }}
	var o sweep.Options
	if err := f.workload(&o); err != nil {
		t.Fatal(err)
	}
	if len(o.Targets) != results.MostRecorded {
		t.Errorf("%d products, expected %d", len(o.Targets), results.MostRecorded)
	}
	if first := o.Targets[0]; first.M != 1+last%256 || first.N != 64+last/256 {
		t.Errorf("%+v is first, expected the one that two lines name", first)
	}
	const want = "--shapes-from: 10 lines skipped: 16384 other products have as many calls or more"
	if len(notes) != 1 || notes[0] != want {
		t.Errorf("notes are %q, expected %q", notes, want)
	}
}
