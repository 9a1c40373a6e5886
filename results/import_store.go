package results

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// importStore checks the lines of CSVs against each other and writes them to the run.
// Of each line it keeps a few bytes: where its round and its seq stand.
type importStore struct {
	w *bulkWriter // nil when lines are only checked

	devices   []string // in order of appearance
	hasDevice map[string]bool
	regime    Regime // of the first line

	series map[SeriesKey]int64
	keys   []SeriesKey
	// of the line before
	lastKey    SeriesKey
	lastSeries int64
	ids        map[importKey]int64
	cases      []importCase // by ID - 1
	phases     map[Phase]int64
	rounds     lineIndex[importRound]
	origins    map[importOrigin]int64
	labels     Labels                        // of lines that have none
	samples    int                           // of the sweep
	named      map[string]string             // devices as their lines call them, by the names they have here
	machines   map[string]map[machineOf]bool // that lines of a device name
	lastOrigin importOrigin                  // of the line before
	first      int64                         // when the first sample was taken, microseconds since 1970; 0 where no line says it

	file     *csvFile
	seqs     lineIndex[int64] // of the file
	seqBase  int64            // of the file
	last     int64            // seq of the line before
	repeated int              // lines of the file that have a round above 0 by being repeated
}

// importKey is the identity of a case.
type importKey struct {
	series   int64
	m, padTo int
	parts    string
}

type importCase struct {
	counted          int // lines without a round
	named, described bool
	single, swept    bool
	series           int64
}

// importRound is linesPerPage rounds of a case in a phase.
type importRound struct {
	caseID, phase int64
	page          int
}

// machineOf is what tells the cards of one name apart.
type machineOf struct{ host, card string }

// importOrigin is an origin as lines have it.
type importOrigin struct {
	device string
	originWords
}

func newImportStore() *importStore {
	return &importStore{
		series: map[SeriesKey]int64{}, hasDevice: map[string]bool{}, ids: map[importKey]int64{}, phases: map[Phase]int64{},
		rounds: lineIndex[importRound]{}, origins: map[importOrigin]int64{}, last: -1,
		named: map[string]string{}, machines: map[string]map[machineOf]bool{},
	}
}

// linesPerPage is how many neighbouring numbers share a page of a lineIndex.
const linesPerPage = 16

// lineIndex remembers at which line a number was seen first. Numbers that are seen are
// mostly neighbours, so they are kept by pages.
type lineIndex[K comparable] map[K]*[linesPerPage]uint32

// add remembers a line; it returns the line at which the number was seen before, else 0.
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

// begin is called before the lines of a file.
func (s *importStore) begin(f *csvFile) {
	s.file, s.seqs, s.repeated = f, lineIndex[int64]{}, 0
	s.seqBase = s.last + 1
}

// warnings are what must be known of the file that was just read.
func (s *importStore) warnings(f *csvFile) []string {
	if s.repeated == 0 {
		return nil
	}
	return []string{fmt.Sprintf("%s: %d lines repeat a batch and are taken as further rounds of it", f.path, s.repeated)}
}

// take checks and stores lines in their order.
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
	// It is mostly that of the line before.
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
	key := importKey{series, rec.c.M, rec.c.PadTo, rec.c.storedParts()}
	id, ok := s.ids[key]
	if !ok {
		id = int64(len(s.cases)) + 1
		s.ids[key] = id
		rec.c.ID = id
		s.cases = append(s.cases, importCase{
			named: rec.c.Label != "", described: rec.c.Launch != Launch{}, series: series,
			single: len(rec.c.Parts) == 0 && rec.c.PadTo == 0,
		})
		if s.w != nil {
			c := rec.c
			c.readLabel()
			if err := s.w.addCase(series, c); err != nil {
				return fmt.Errorf("%s:%d: %w", rec.path, rec.line, err)
			}
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
	if rec.s.Phase == PhaseSweep {
		c.swept = true
		s.samples++
	}
	if s.w == nil {
		return nil
	}
	origin, err := s.origin(rec)
	if err == nil {
		err = s.w.sample(&rec.s, origin)
	}
	if err != nil {
		return fmt.Errorf("%s:%d: %w", rec.path, rec.line, err)
	}
	return nil
}

// machine remembers which hosts and cards lines of a device are of.
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
	id := int64(len(s.series)) + 1
	s.series[k] = id
	s.keys = append(s.keys, k)
	if s.w == nil {
		return id, nil
	}
	return id, s.w.series(id, k)
}

// learn stores the label and the launch of a case when earlier lines had none.
func (s *importStore) learn(c *importCase, rec *record) error {
	names, describes := !c.named && rec.c.Label != "", !c.described && rec.c.Launch != (Launch{})
	if !names && !describes {
		return nil
	}
	c.named, c.described = c.named || names, c.described || describes
	if s.w == nil {
		return nil
	}
	told := rec.c
	told.readLabel()
	if names {
		if err := s.w.label(rec.s.CaseID, told.Label); err != nil {
			return err
		}
	}
	if describes || !c.described && told.Launch != (Launch{}) {
		return s.w.launch(rec.s.CaseID, told.Launch)
	}
	return nil
}

// number gives a line its round and seq, or checks those that it has.
func (s *importStore) number(c *importCase, rec *record) error {
	fail := func(column string, value int64, format string, args ...any) error {
		return &ImportError{Path: rec.path, Line: rec.line, Column: column, Value: strconv.FormatInt(value, 10), Reason: fmt.Sprintf(format, args...)}
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
			return &ImportError{Path: rec.path, Line: rec.line, Reason: fmt.Sprintf("round %d of %v stands at line %d", rec.s.Round, rec.c, line)}
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

// origin stores where a line comes from, when it is new.
func (s *importStore) origin(rec *record) (int64, error) {
	key := importOrigin{rec.c.Device, rec.o}
	if id, ok := s.origins[key]; ok {
		return id, nil
	}
	labels, err := decodeLabels(rec.o.labels)
	if err != nil {
		return 0, err
	}
	if len(labels) == 0 {
		labels = s.labels
	}
	o := Origin{ID: int64(len(s.origins)) + 1, Run: rec.o.run, Host: rec.o.host, Device: rec.c.Device, Card: rec.o.card, Labels: labels}
	if o.Run == "" {
		o.Run = s.w.run
	}
	s.origins[key] = o.ID
	return o.ID, s.w.origin(o)
}

// machine is what all lines say of the machine, and of each of its devices.
type machine struct {
	host   string
	labels Labels
	names  map[string]string // of devices
	cards  map[string]string
}

// oneMachine is what lines do not contradict each other in. A run has one fingerprint; the origins of its
// samples have the rest.
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
		labels, _ := decodeLabels(o.labels) // which were checked where they were read
		if len(labels) == 0 {
			labels = s.labels
		}
		if first {
			m.labels = labels
		}
		m.labels, first = m.labels.common(labels), false
	}
	m.host = hosts[""]
	return m
}

// swept is what was imported of a sweep.
func (s *importStore) swept() *Swept {
	out := &Swept{Samples: s.samples}
	curves := map[SeriesKey]bool{}
	for _, c := range s.cases {
		if c.swept {
			out.Cases++
			if k := s.keys[c.series-1]; c.single && !curves[k] {
				curves[k] = true
				out.Series = append(out.Series, k)
			}
		}
	}
	slices.SortFunc(out.Series, SeriesKey.compare)
	return out
}
