package importing

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/gemmaudit/gemmaudit/results"
)

// importStore checks CSV lines against each other and writes them to the run. It keeps only a few bytes per
// line: the places of its round and seq.
type importStore struct {
	w *results.Writer

	devices   []string // in order of appearance
	hasDevice map[string]bool
	regime    results.Regime // of the first line

	series map[results.SeriesKey]int64
	// of the previous line
	lastKey    results.SeriesKey
	lastSeries int64
	ids        map[importKey]int64
	cases      []importCase // by ID - 1
	phases     map[results.Phase]int64
	rounds     lineIndex[importRound]
	origins    map[importOrigin]int64
	labels     results.Labels                // for lines without labels
	named      map[string]string             // devices in the lines by their new names
	machines   map[string]map[machineOf]bool // named by a device's lines
	lastOrigin importOrigin                  // of the previous line
	first      int64                         // time of the first sample, microseconds since 1970; 0 if unknown

	seqs     lineIndex[int64] // of the file
	seqBase  int64            // of the file
	last     int64            // seq of the previous line
	repeated int              // lines of the file that have a round above 0 by being repeated
}

type importKey struct {
	series   int64
	m, padTo int
	parts    string
}

type importCase struct {
	counted          int // lines without a round
	named, described bool
}

// importRound is linesPerPage rounds of a case in a phase.
type importRound struct {
	caseID, phase int64
	page          int
}

type machineOf struct{ host, card string }

type importOrigin struct {
	device string
	originWords
}

func newImportStore() *importStore {
	return &importStore{
		series: map[results.SeriesKey]int64{}, hasDevice: map[string]bool{}, ids: map[importKey]int64{}, phases: map[results.Phase]int64{},
		rounds: lineIndex[importRound]{}, origins: map[importOrigin]int64{}, last: -1,
		named: map[string]string{}, machines: map[string]map[machineOf]bool{},
	}
}

const linesPerPage = 16

// lineIndex stores the first line of each number, in pages because numbers are mostly adjacent.
type lineIndex[K comparable] map[K]*[linesPerPage]uint32

func (x lineIndex[K]) add(page K, n int, line int) (before int) {
	p := x[page]
	if p == nil {
		p = new([linesPerPage]uint32)
		x[page] = p
	}
	if before = int(p[n]); before == 0 {
		p[n] = uint32(min(line, math.MaxUint32))
	}
	return before
}

func (s *importStore) begin() {
	s.seqs, s.repeated = lineIndex[int64]{}, 0
	s.seqBase = s.last + 1
}

func (s *importStore) take(batch []record) error {
	for i := range batch {
		if err := s.add(&batch[i]); err != nil {
			return err
		}
	}
	return nil
}

func (s *importStore) add(rec *record) error {
	s.machine(rec)
	// Usually the previous line's.
	series := s.lastSeries
	if series == 0 || rec.c.SeriesKey != s.lastKey {
		var ok bool
		var err error
		if series, ok = s.series[rec.c.SeriesKey]; !ok {
			if series, err = s.addSeries(rec); err != nil {
				return fmt.Errorf("%s:%d: %w", rec.path, rec.line, err)
			}
		}
		s.lastKey, s.lastSeries = rec.c.SeriesKey, series
	}
	key := importKey{series, rec.c.M, rec.c.PadTo, rec.c.StoredParts()}
	id, ok := s.ids[key]
	if !ok {
		id = int64(len(s.cases)) + 1
		s.ids[key] = id
		rec.c.ID = id
		s.cases = append(s.cases, importCase{named: rec.c.Label != "", described: rec.c.Launch != results.Launch{}})
		c := rec.c
		c.ReadLabel()
		if err := s.w.Case(series, c); err != nil {
			return fmt.Errorf("%s:%d: %w", rec.path, rec.line, err)
		}
	}
	rec.s.CaseID = id
	c := &s.cases[id-1]
	if err := s.learn(c, rec); err != nil {
		return fmt.Errorf("%s:%d: %w", rec.path, rec.line, err)
	}
	if err := s.number(c, rec); err != nil {
		return err
	}
	if at := rec.s.StartedUnixMicro; at > 0 && (s.first == 0 || at < s.first) {
		s.first = at
	}
	origin, err := s.origin(rec)
	if err == nil {
		err = s.w.Sample(&rec.s, origin)
	}
	if err != nil {
		return fmt.Errorf("%s:%d: %w", rec.path, rec.line, err)
	}
	return nil
}

func (s *importStore) machine(rec *record) {
	origin := importOrigin{rec.c.Device, rec.o}
	if origin == s.lastOrigin {
		return
	}
	s.lastOrigin = origin
	if s.machines[rec.c.Device] == nil {
		s.machines[rec.c.Device] = map[machineOf]bool{}
	}
	s.machines[rec.c.Device][machineOf{rec.o.host, rec.o.card}] = true
}

func (s *importStore) addSeries(rec *record) (int64, error) {
	k := rec.c.SeriesKey
	if len(s.series) == 0 {
		s.regime = k.Regime
	}
	if !s.hasDevice[k.Device] {
		s.hasDevice[k.Device] = true
		s.devices = append(s.devices, k.Device)
		s.named[k.Device] = strings.TrimSuffix(strings.TrimPrefix(k.Device, rec.o.host+"/"), "/"+rec.o.card)
	}
	id, err := s.w.Series(k)
	s.series[k] = id
	return id, err
}

// learn stores a case's label and launch if earlier lines had none.
func (s *importStore) learn(c *importCase, rec *record) error {
	names, describes := !c.named && rec.c.Label != "", !c.described && rec.c.Launch != (results.Launch{})
	if !names && !describes {
		return nil
	}
	c.named, c.described = c.named || names, c.described || describes
	told := rec.c
	told.ReadLabel()
	if names {
		if err := s.w.Label(rec.s.CaseID, told.Label); err != nil {
			return err
		}
	}
	if describes || !c.described && told.Launch != (results.Launch{}) {
		return s.w.Launch(rec.s.CaseID, told.Launch)
	}
	return nil
}

// number sets a line's round and seq, or checks the given ones.
func (s *importStore) number(c *importCase, rec *record) error {
	fail := func(column string, value int64, format string, args ...any) error {
		return &Error{Path: rec.path, Line: rec.line, Column: column, Value: strconv.FormatInt(value, 10),
			Reason: fmt.Sprintf(format, args...)}
	}
	several := len(s.machines[rec.c.Device]) > 1
	if rec.counted && several {
		return errManyMachines
	}
	if rec.counted {
		rec.s.Round = c.counted
		c.counted++
		if rec.s.Round > 0 {
			s.repeated++
		}
	}
	phase, ok := s.phases[rec.s.Phase]
	if !ok {
		phase = int64(len(s.phases))
		s.phases[rec.s.Phase] = phase
	}
	page := importRound{rec.s.CaseID, phase, rec.s.Round / linesPerPage}
	if line := s.rounds.add(page, rec.s.Round%linesPerPage, rec.line); line > 0 {
		if several {
			return errors.Join(errManyMachines, fail("round", int64(rec.s.Round), "of %v repeats line %d", rec.c, line))
		}
		if rec.counted {
			return &Error{Path: rec.path, Line: rec.line,
				Reason: fmt.Sprintf("round %d of %v stands at line %d", rec.s.Round, rec.c, line)}
		}
		return fail("round", int64(rec.s.Round), "of %v repeats line %d", rec.c, line)
	}
	if !rec.placed {
		rec.s.Seq = s.last + 1
	} else {
		if line := s.seqs.add(rec.s.Seq/linesPerPage, int(rec.s.Seq%linesPerPage), rec.line); line > 0 {
			return fail("seq", rec.s.Seq, "repeats line %d", line)
		}
		rec.s.Seq += s.seqBase
	}
	s.last = max(s.last, rec.s.Seq)
	return nil
}

func (s *importStore) origin(rec *record) (int64, error) {
	key := importOrigin{rec.c.Device, rec.o}
	if id, ok := s.origins[key]; ok {
		return id, nil
	}
	labels, err := results.DecodeLabels(rec.o.labels)
	if err != nil {
		return 0, err
	}
	if len(labels) == 0 {
		labels = s.labels
	}
	o := results.Origin{ID: int64(len(s.origins)) + 1, Run: rec.o.run, Host: rec.o.host, Device: rec.c.Device, Card: rec.o.card,
		Labels: labels}
	if o.Run == "" {
		o.Run = s.w.RunID()
	}
	s.origins[key] = o.ID
	return o.ID, s.w.Origin(o)
}

// machine is what all lines agree on about the machine and its devices.
type machine struct {
	host   string
	labels results.Labels
	names  map[string]string // of devices
	cards  map[string]string
}

// oneMachine returns what lines agree on. A run has one fingerprint; the samples' origins have the rest.
func (s *importStore) oneMachine() machine {
	m := machine{names: map[string]string{}, cards: map[string]string{}}
	known := func(all map[string]string, device, word string) {
		if before, ok := all[device]; ok && before != word {
			word = ""
		}
		all[device] = word
	}
	hosts := map[string]string{}
	first := true
	for o := range s.origins {
		known(hosts, "", o.host)
		known(m.names, o.device, o.name)
		known(m.cards, o.device, o.card)
		labels, _ := results.DecodeLabels(o.labels) // checked when read
		if len(labels) == 0 {
			labels = s.labels
		}
		if first {
			m.labels = labels
		}
		m.labels, first = m.labels.Common(labels), false
	}
	m.host = hosts[""]
	return m
}
