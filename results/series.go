package results

import (
	"cmp"
	"slices"
)

// compare orders series by their fields, in the order in which they are printed.
func (k SeriesKey) compare(o SeriesKey) int {
	inside := func(b bool) int {
		if b {
			return 1
		}
		return 0
	}
	return cmp.Or(
		cmp.Compare(k.Device, o.Device),
		cmp.Compare(k.Kernel, o.Kernel),
		cmp.Compare(k.DType, o.DType),
		cmp.Compare(k.N, o.N),
		cmp.Compare(k.K, o.K),
		cmp.Compare(k.Regime, o.Regime),
		cmp.Compare(k.Threads, o.Threads),
		cmp.Compare(inside(k.PackInside), inside(o.PackInside)),
	)
}

// Series returns the curves of the run as the rules read them: cases that are
// single launches, with their samples of the sweep, M ascending, the curves
// ordered by their keys. A case with neither samples nor a failure in the sweep
// was planned but not reached, and is left out; a case with samples counts as
// measured even when other rounds of it failed.
//
// The peak is that of the device's ceilings, by [kernels.Ceilings.Peak]. Without
// one the series is relative to its own fastest row: FLOPS is 0 and the origin
// is [kernels.Relative].
func (r *Run) Series() ([]Series, error) {
	var rows []Row
	at := map[int64]int{}
	err := r.readCases(selectSingle, func(c Case) error {
		at[c.ID] = len(rows)
		rows = append(rows, Row{Case: c})
		return nil
	})
	if err != nil {
		return nil, err
	}
	err = r.eachSample(func(s Sample) error {
		if i, ok := at[s.CaseID]; ok {
			rows[i].Samples = append(rows[i].Samples, s)
		}
		return nil
	}, `WHERE phase = ?`, string(PhaseSweep))
	if err != nil {
		return nil, err
	}
	failures, err := r.Failures()
	if err != nil {
		return nil, err
	}
	for _, f := range failures {
		if i, ok := at[f.CaseID]; ok && f.Phase == PhaseSweep && len(rows[i].Samples) == 0 && rows[i].Failed == "" {
			rows[i].Failed = f.Reason
		}
	}
	rows = slices.DeleteFunc(rows, func(row Row) bool { return len(row.Samples) == 0 && row.Failed == "" })
	slices.SortStableFunc(rows, func(a, b Row) int {
		if a.Case.SeriesKey == b.Case.SeriesKey {
			return cmp.Compare(a.Case.M, b.Case.M)
		}
		return a.Case.SeriesKey.compare(b.Case.SeriesKey)
	})
	meta := r.Meta()
	var out []Series
	for first := 0; first < len(rows); {
		key := rows[first].Case.SeriesKey
		end := first + 1
		for end < len(rows) && rows[end].Case.SeriesKey == key {
			end++
		}
		out = append(out, Series{
			Key:           key,
			Rows:          rows[first:end:end],
			Peak:          peakOf(meta, key),
			ReadBandwidth: meta.Ceilings[key.Device].ReadBandwidth,
		})
		first = end
	}
	return out, nil
}
