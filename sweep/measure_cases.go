package sweep

import (
	"errors"
	"fmt"
	"slices"

	"github.com/gemmaudit/gemmaudit/results"
)

func (m *Measurer) name(requests []results.Request) ([]results.Case, error) {
	cases := make([]results.Case, len(requests))
	for i, r := range requests {
		c := r.Case
		c.ID = 0
		if err := checkCase(c); err != nil {
			return nil, err
		}
		if m.rigs[c.Device] == nil && !slices.Contains(m.cfg.Absent, c.Device) {
			return nil, fmt.Errorf("%v can't be measured again: there is no device %q here", c, c.Device)
		}
		cases[i] = c
	}
	if m.cfg.Out != nil {
		return m.cfg.Out.AddCases(cases)
	}
	for i := range cases {
		key := cases[i].Key()
		if m.local[key] == 0 {
			m.local[key] = int64(len(m.local) + 1)
		}
		cases[i].ID = m.local[key]
	}
	return cases, nil
}

// checkCase rejects cases that can't be executed or stored. Within [MaxDimension] operand sizes do not
// overflow.
func checkCase(c results.Case) error {
	if err := c.Validate(); err != nil {
		return err
	}
	largest := max(c.M, c.PadTo)
	for _, d := range c.Operation.Dims() {
		if !d.Routes { // of which no size follows
			largest = max(largest, *d.In(&c.Dims))
		}
	}
	if largest > MaxDimension {
		return fmt.Errorf("%v has a dimension of %d, expected at most %d", c, largest, MaxDimension)
	}
	return nil
}

func (m *Measurer) round(id int64, phase results.Phase) (int, error) {
	next := m.rounds[phase]
	if next == nil {
		next = map[int64]int{}
		if m.cfg.Out != nil {
			done, err := m.cfg.Out.Done(phase)
			if err != nil {
				return 0, errors.Join(errJournal, err)
			}
			for id, rounds := range done {
				next[id] = slices.Max(rounds) + 1
			}
		}
		m.rounds[phase] = next
	}
	next[id]++
	return next[id] - 1, nil
}

func (m *Measurer) giveUp(c results.Case, phase results.Phase, why error) error {
	m.cfg.Observer.Message(fmt.Sprintf("%v failed: %v", c, why))
	round, err := m.round(c.ID, phase)
	if err != nil {
		return err
	}
	if err := m.journal.fail(results.Failure{CaseID: c.ID, Phase: phase, Round: round, Reason: why.Error()}); err != nil {
		return errors.Join(errJournal, err)
	}
	if m.cfg.Out == nil || !m.faults.addLost(c, why) {
		return nil
	}
	if err := m.faults.write(m.cfg.Out); err != nil {
		return errors.Join(errJournal, err)
	}
	return nil
}

func distinct(stations []*station) int {
	seen := make(map[*station]bool, len(stations))
	for _, s := range stations {
		seen[s] = true
	}
	return len(seen)
}
