package rules

import (
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/gemmaudit/gemmaudit/results"
	"github.com/gemmaudit/gemmaudit/rules/infer"
)

// inferredVariable names two runs of one card: an inferred sweep, and a sweep of the same plan with every row
// measured.
const inferredVariable = "INFERRED"

// BenchmarkInferred compares inferred rows with another sweep's measurements, from files:
// INFERRED=inferred.db,dense.db go test -run '^$' -bench Inferred ./rules
func BenchmarkInferred(b *testing.B) {
	paths := strings.Split(os.Getenv(inferredVariable), ",")
	if len(paths) != 2 {
		b.Skipf("%s=inferred.db,dense.db names no two runs", inferredVariable)
	}
	cfg := Default().Only(Monotonic)
	var audits [2]*Audit
	var blocks [2]int
	for b.Loop() {
		for i, path := range paths {
			run, err := results.Open(path)
			if err != nil {
				b.Fatal(err)
			}
			data, err := infer.LoadData(run)
			run.Close()
			if err != nil {
				b.Fatal(err)
			}
			if audits[i], err = RunAudit(b.Context(), data, cfg, nil); err != nil {
				b.Fatal(err)
			}
			for _, mhz := range audits[i].Clocks {
				cfg.ClockMHz = mhz
			}
			blocks[i] = 0
			for _, s := range data.Series {
				for _, r := range s.Rows {
					blocks[i] += len(r.Samples)
				}
			}
		}
	}
	fmt.Printf("inferred: blocks %d of %d, %.1f %%; %+v\n", blocks[0], blocks[1], 100*float64(blocks[0])/float64(blocks[1]),
		audits[0].Inference)
	for _, dense := range audits[1].Series {
		k := slices.IndexFunc(audits[0].Series, func(s SeriesAudit) bool { return s.Key == dense.Key })
		if k < 0 {
			b.Fatalf("%s lacks %v", paths[0], dense.Key)
		}
		compareInferred(audits[0].Series[k], dense)
	}
}

func compareInferred(inferred, dense SeriesAudit) {
	rows := map[int]RowVerdict{}
	for _, r := range inferred.Rows {
		rows[r.M] = r
	}
	var decided, equal, slow, found, wrong, agree int
	var off []float64
	for _, d := range dense.Rows {
		r, ok := rows[d.M]
		if !ok {
			continue
		}
		if r.Inferred {
			off = append(off, math.Abs(math.Log(r.US.Mid/d.US.Mid)))
			if r.US.Lo <= d.US.Hi && d.US.Lo <= r.US.Hi {
				agree++
			}
		}
		if d.Verdict == Undecided || d.Verdict == Marginal || r.Verdict == Marginal {
			continue
		}
		decided++
		if r.Verdict == d.Verdict {
			equal++
		}
		if d.Verdict == Anomalous {
			slow++
			if r.Verdict == Anomalous {
				found++
			}
		} else if r.Verdict == Anomalous {
			wrong++
		}
	}
	slices.Sort(off)
	within, _ := slices.BinarySearch(off, 0.01)
	quantile := func(p float64) float64 {
		if len(off) == 0 {
			return 0
		}
		return 100 * off[int(p*float64(len(off)-1))]
	}
	fmt.Printf("inferred %v: %d of %d rows inferred; verdicts equal %d of %d, anomalous rows found %d of %d, clean ones called anomalous "+
		"%d; "+
		"inferred times within 1 %% %d of %d, intervals that meet %d; off by %.2f %% in the median, %.2f %% at the 90th percentile, %.2f "+
		"%% at the 99th\n",
		dense.Key, len(off), len(dense.Rows), equal, decided, found, slow, wrong, within, len(off), agree, quantile(.5), quantile(.9),
		quantile(.99))
}
