package results

import "maps"

// recorded is which rounds of which cases the run has, as samples or failures. It ensures one of them per
// phase and round: a run has one writer, which reads the rounds once.
type recorded struct {
	samples  map[roundPage]uint64
	failures map[roundKey]struct{}
}

// roundPage is 64 rounds of a case, a bit each.
type roundPage struct {
	caseID int64
	phase  Phase
	page   int
}

type roundKey struct {
	caseID int64
	phase  Phase
	round  int
}

func newRecorded() *recorded {
	return &recorded{samples: map[roundPage]uint64{}, failures: map[roundKey]struct{}{}}
}

func pageOf(caseID int64, phase Phase, round int) (roundPage, uint64) {
	return roundPage{caseID, phase, round / 64}, 1 << (round % 64)
}

func (r *recorded) add(caseID int64, phase Phase, round int) {
	page, bit := pageOf(caseID, phase, round)
	r.samples[page] |= bit
}

func (r *recorded) has(caseID int64, phase Phase, round int) bool {
	page, bit := pageOf(caseID, phase, round)
	return r.samples[page]&bit != 0
}

func (r *recorded) fail(caseID int64, phase Phase, round int) {
	r.failures[roundKey{caseID, phase, round}] = struct{}{}
}

func (r *recorded) failed(caseID int64, phase Phase, round int) bool {
	_, ok := r.failures[roundKey{caseID, phase, round}]
	return ok
}

func (r *recorded) forgive(caseID int64, phase Phase) {
	maps.DeleteFunc(r.failures, func(k roundKey, _ struct{}) bool { return k.caseID == caseID && k.phase == phase })
}

// readRecorded reads the run's rounds on first use. The caller holds r.records.
func (r *Run) readRecorded() error {
	if r.recorded != nil {
		return nil
	}
	known := newRecorded()
	phases := map[string]Phase{}
	err := r.eachKey(func(_, caseID int64, phase []byte, round int) error {
		p, ok := phases[string(phase)]
		if !ok {
			p = Phase(phase)
			phases[string(phase)] = p
		}
		known.add(caseID, p, round)
		return nil
	})
	if err != nil {
		return err
	}
	failures, err := r.Failures()
	if err != nil {
		return err
	}
	for _, f := range failures {
		known.fail(f.CaseID, f.Phase, f.Round)
	}
	r.recorded = known
	return nil
}
