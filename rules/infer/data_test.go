package infer

import (
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/results"
)

func TestDataHasChoices(t *testing.T) {
	run, err := results.Create(filepath.Join(t.TempDir(), "run.db"), results.Meta{})
	if err != nil {
		t.Fatal(err)
	}
	defer run.Close()
	want := map[results.SeriesKey]results.Choices{
		syntheticKey: {{From: 8, To: 64, Kind: results.LaunchKind{Label: "a", Tile: [3]int{64, 128, 32}, Split: 1, Slots: 132}}},
	}
	if err := run.SetChoices(syntheticKey, want[syntheticKey]); err != nil {
		t.Fatal(err)
	}
	data, err := LoadData(run)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(want, data.Choices); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}

var syntheticKey = results.SeriesKey{Device: "sim", Kernel: "lib", Subject: kernels.Product(kernels.BF16, 4096, 4096),
	Regime: results.Engine}
