package report

import (
	"path/filepath"

	"github.com/gemmaudit/gemmaudit/results"
	"github.com/gemmaudit/gemmaudit/rules/cause"
	"github.com/gemmaudit/gemmaudit/rules/infer"
)

// NewInput gathers what a report shows of a run itself: everything but the verdicts and settings. data is the
// run's content along the judged dimension.
func NewInput(run *results.Run, data infer.Data) (Input, error) {
	in := Input{Meta: data.Meta, Run: filepath.Base(run.Path()), Series: data.Series, Sentinels: data.Sentinels,
		Cases:      map[int64]results.Case{},
		Boundaries: func(key results.SeriesKey) []Boundary { return boundaries(cause.Steps(data, key)) }}
	cases, err := run.Cases()
	if err != nil {
		return in, err
	}
	for _, c := range cases {
		in.Cases[c.ID] = c
	}
	in.Executed, err = executedRows(run, in.Cases)
	return in, err
}

func boundaries(steps []cause.Step) []Boundary {
	var out []Boundary
	for _, s := range steps {
		kind := "tile"
		if s.Kind == cause.WaveQuantization {
			kind = "wave"
		}
		out = append(out, Boundary{M: s.M, Kind: kind})
	}
	return out
}

// executedRows returns the cases timed for remedies, in order of first run, with those samples.
func executedRows(run *results.Run, cases map[int64]results.Case) ([]results.Row, error) {
	samples, err := run.Samples(results.PhaseRemedy)
	if err != nil {
		return nil, err
	}
	var rows []results.Row
	place := map[int64]int{}
	for _, s := range samples {
		at, ok := place[s.CaseID]
		if !ok {
			at = len(rows)
			place[s.CaseID] = at
			rows = append(rows, results.Row{Case: cases[s.CaseID]})
		}
		rows[at].Samples = append(rows[at].Samples, s)
	}
	return rows, nil
}
