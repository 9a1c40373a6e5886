package synthetic

import (
	"bytes"
	"encoding/csv"
	"slices"
	"strconv"
	"testing"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/results"
	"github.com/gemmaudit/gemmaudit/results/published"
	"github.com/gemmaudit/gemmaudit/rules/infer"
)

func publishedSweep(t testing.TB, name string, key results.SeriesKey, peak float64) infer.Data {
	t.Helper()
	rows, err := csv.NewReader(bytes.NewReader(published.Read(t, name))).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	s := results.Series{Key: key, Peak: kernels.Peak{DType: key.DType, FLOPS: peak, Origin: kernels.DataSheet}}
	for i, r := range rows[1:] {
		m, err1 := strconv.Atoi(r[0])
		us, err2 := strconv.ParseFloat(r[1], 64)
		utils, err3 := strconv.ParseFloat(r[3], 64)
		if err1 != nil || err2 != nil || err3 != nil {
			t.Fatal(err1, err2, err3)
		}
		c := results.Case{ID: int64(i + 1), SeriesKey: key, M: m}
		c.Label, c.Launch = kernels.ReadLabel(r[4])
		s.Rows = append(s.Rows, results.Row{Case: c,
			Samples: []results.Sample{{CaseID: c.ID, Phase: results.PhaseSweep, Seq: int64(i), US: us, Utils: utils}}})
	}
	slices.SortFunc(s.Rows, func(a, b results.Row) int { return a.Case.M - b.Case.M })
	return infer.Data{Name: name, Series: []results.Series{s}, Meta: results.Meta{Source: name}}
}

// Rtx4090 is the article's sweep of an RTX 4090 in fp16.
func Rtx4090(t testing.TB) infer.Data {
	return publishedSweep(t, published.RTX4090,
		results.SeriesKey{Device: "NVIDIA GeForce RTX 4090", Kernel: "torch", Subject: kernels.Product(kernels.FP16, 14336, 4096),
			Regime: results.Hot}, 166e12)
}

// A800 is the article's sweep of an A800 in bf16.
func A800(t testing.TB) infer.Data {
	return publishedSweep(t, published.A800,
		results.SeriesKey{Device: "NVIDIA A800 80GB PCIe", Kernel: "torch", Subject: kernels.Product(kernels.BF16, 4096, 4096),
			Regime: results.Hot}, 312e12)
}
