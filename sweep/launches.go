package sweep

import (
	"slices"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/results"
)

// ran is what a launch reported after it ran.
type ran struct {
	label  string
	launch results.Launch
}

func (r ran) same(o ran) bool { return results.SameLaunch(r.label, r.launch, o.label, o.launch) }

// mostLaunches limits the further launches that are kept of a case.
const mostLaunches = 16

// whatRan returns the distinct launches of a block of another process, without copies; of a split, those of its
// first part. Kernels of this process are asked once instead: their choice depends on the problem only, and an
// answer takes up to milliseconds.
func (b *rig) whatRan(f *flight) []ran {
	if b.process(f.station.c) == "" {
		return nil
	}
	var out []ran
	each, first := launchesOf(f.station.c), 0
	if f.station.c.Copied {
		first = 1
	}
	last := ""
	for i := first; i < len(f.window); i += each {
		text := f.window[i].Label()
		if text == last {
			continue
		}
		last = text
		label, read := kernels.ReadLabel(text)
		r := ran{label, kernels.TilingOf(f.window[i]).Or(read)}
		if !slices.ContainsFunc(out, r.same) {
			out = append(out, r)
		}
	}
	return out
}

// record stores the first launch of a station's case, and returns the launches that differ from it for the first
// time. out may be nil.
func (s *station) record(out *results.Run, phase results.Phase, round int) (others []results.OtherLaunch, err error) {
	for _, r := range s.ran {
		first := ran{s.c.Label, s.c.Launch}
		switch {
		case r == (ran{}): // it tells nothing
		case first == (ran{}):
			s.c.Label, s.c.Launch = r.label, r.launch
			if out != nil {
				if err := out.SetLaunch(s.c.ID, r.label, r.launch); err != nil {
					return others, err
				}
			}
		case r.same(first) || slices.ContainsFunc(s.others, r.same) || len(s.others) == mostLaunches:
		default:
			s.others = append(s.others, r)
			o := results.OtherLaunch{CaseID: s.c.ID, Label: r.label, Phase: phase, Round: round,
				Launch: results.Launch{Tile: r.launch.Tile, Split: r.launch.Split}}
			others = append(others, o)
			if out != nil {
				if err := out.AddLaunch(o); err != nil {
					return others, err
				}
			}
		}
	}
	return others, nil
}

// OtherLaunches implements rules.LaunchTeller.
func (m *Measurer) OtherLaunches() []results.OtherLaunch { return m.others }
