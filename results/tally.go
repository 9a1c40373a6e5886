package results

import (
	"cmp"
	"database/sql"
	"fmt"
	"runtime"
	"slices"

	"golang.org/x/sync/errgroup"

	"github.com/gemmaudit/gemmaudit/results/direct"
)

// tally is a run's cases with their numbers of sweep samples.
type tally struct {
	ids      []int64 // of all cases, ascending
	rows     []Row   // the curves' sorted rows, without samples
	rowOf    []int32 // by position in ids: the row, -1 for none
	parts    []seqRange
	counts   [][]int32 // by part and position in ids
	failures []Failure
	failed   map[int64]string // a case's first reason in the sweep
	devices  []string         // in order of appearance
	deviceOf []int32          // by position in ids: index in devices
	taken    map[source]int   // samples of all phases by source
}

// source is where a sample was taken: a device of the run, named by the case, and the sample's origin ID, 0
// in schema 1.
type source struct {
	device string
	origin int64
}

// seqRange is a part of a run's samples that is read separately.
type seqRange struct{ first, last int64 }

func (t *tally) position(id int64) (int, bool) {
	// IDs normally count from 1.
	if i := id - 1; i >= 0 && i < int64(len(t.ids)) && t.ids[i] == id {
		return int(i), true
	}
	return slices.BinarySearch(t.ids, id)
}

func (r *Run) tally() (*tally, error) {
	t := &tally{failed: map[int64]string{}}
	devices := map[string]int32{}
	err := r.bulk("read cases", func(d *reader) error {
		if err := d.size(t); err != nil {
			return err
		}
		return d.cases(func(c Case) error {
			t.ids = append(t.ids, c.ID)
			at, ok := devices[c.Device]
			if !ok {
				at = int32(len(t.devices))
				devices[c.Device], t.devices = at, append(t.devices, c.Device)
			}
			t.deviceOf = append(t.deviceOf, at)
			if len(c.Parts) == 0 && c.PadTo == 0 {
				t.rows = append(t.rows, Row{Case: c})
			}
			return nil
		})
	})
	if err != nil {
		return nil, err
	}
	if t.parts, err = r.split(); err != nil {
		return nil, err
	}
	if err := r.countSamples(t); err != nil {
		return nil, err
	}
	if t.failures, err = r.Failures(); err != nil {
		return nil, err
	}
	for _, f := range t.failures {
		if _, ok := t.position(f.CaseID); !ok {
			if err := r.isStored("cases", "the case of a failure", f.CaseID); err != nil {
				return nil, err
			}
		}
		if _, ok := t.failed[f.CaseID]; !ok && f.Phase == PhaseSweep {
			t.failed[f.CaseID] = f.Reason
		}
	}
	t.arrange()
	return t, nil
}

// countSamples counts the samples per case and source. A sample with an unknown case or origin is damage:
// ignoring it would distort verdicts.
func (r *Run) countSamples(t *tally) error {
	origin := "origin"
	if r.schema < 2 {
		origin = "0"
	}
	t.counts, t.taken = make([][]int32, len(t.parts)), map[source]int{}
	taken := make([]map[source]int, len(t.parts))
	unknown := make([][]int64, len(t.parts)) // at most one case each
	err := r.inParts(t.parts, func(part int, d *reader, within string) error {
		counts := make([]int32, len(t.ids))
		t.counts[part], taken[part] = counts, map[source]int{}
		lastDevice, lastOrigin, n := int32(-1), int64(0), 0
		note := func() {
			if n > 0 {
				taken[part][source{t.devices[lastDevice], lastOrigin}] += n
			}
		}
		err := d.query(`SELECT case_id, phase, `+origin+` FROM samples `+within, func(s *direct.Stmt) error {
			id, phase, from := s.Int(0), s.Text(1), s.Int(2)
			i, ok := t.position(id)
			if !ok {
				unknown[part] = []int64{id}
				return s.Err()
			}
			if string(phase) == string(PhaseSweep) {
				counts[i]++
			}
			if device := t.deviceOf[i]; device != lastDevice || from != lastOrigin {
				note()
				lastDevice, lastOrigin, n = device, from, 0
			}
			n++
			return s.Err()
		})
		note()
		return err
	})
	if err != nil {
		return err
	}
	for part := range t.parts {
		for _, id := range unknown[part] {
			if err := r.isStored("cases", "the case of a sample", id); err != nil {
				return err
			}
		}
		for from, n := range taken[part] {
			t.taken[from] += n
		}
	}
	if r.schema < 2 {
		return nil
	}
	for from := range t.taken {
		if err := r.isStored("origins", "the origin of a sample", from.origin); err != nil {
			return err
		}
	}
	return nil
}

// isStored is the error of a reference to a missing row. It queries the table again, because a writer may
// have added the row since.
func (r *Run) isStored(table, what string, id int64) error {
	var n int
	if err := r.db.QueryRow(`SELECT count(*) FROM `+table+` WHERE id = ?`, id).Scan(&n); err != nil {
		return r.damaged("read "+table, err)
	}
	if n == 0 {
		return BadValue(r.path, what, id)
	}
	return nil
}

func (d *reader) size(t *tally) error {
	cases, single := 0, 0
	err := d.query(`SELECT parts = '' AND pad_to = 0 FROM cases`, func(s *direct.Stmt) error {
		cases, single = cases+1, single+int(s.Int(0))
		return s.Err()
	})
	t.ids, t.rows = make([]int64, 0, cases), make([]Row, 0, single)
	return err
}

func (t *tally) arrange() {
	t.rows = slices.DeleteFunc(t.rows, func(row Row) bool {
		i, _ := t.position(row.Case.ID)
		return t.count(i) == 0 && t.failed[row.Case.ID] == ""
	})
	order := func(a, b Row) int {
		if a.Case.SeriesKey == b.Case.SeriesKey {
			return cmp.Or(cmp.Compare(a.Case.M, b.Case.M), cmp.Compare(a.Case.ID, b.Case.ID))
		}
		return a.Case.SeriesKey.Compare(b.Case.SeriesKey)
	}
	if !slices.IsSortedFunc(t.rows, order) {
		slices.SortFunc(t.rows, order)
	}
	t.rowOf = make([]int32, len(t.ids))
	for i := range t.rowOf {
		t.rowOf[i] = -1
	}
	for i := range t.rows {
		p, _ := t.position(t.rows[i].Case.ID)
		t.rowOf[p] = int32(i)
	}
}

func (t *tally) count(position int) int {
	n := 0
	for _, part := range t.counts {
		n += int(part[position])
	}
	return n
}

func (t *tally) swept() *Swept {
	out := &Swept{}
	for i := range t.rows {
		if k := t.rows[i].Case.SeriesKey; i == 0 || k != t.rows[i-1].Case.SeriesKey {
			out.Series = append(out.Series, k)
		}
	}
	for i, id := range t.ids {
		n := t.count(i)
		out.Samples += n
		if _, failed := t.failed[id]; n > 0 || failed {
			out.Cases++
		}
	}
	for _, f := range t.failures {
		if f.Phase == PhaseSweep {
			out.Samples++
		}
	}
	return out
}

// inOnePart is the number of samples below which a second connection does not pay.
const inOnePart = 1 << 16

// split divides the samples into parts for concurrent reading.
func (r *Run) split() ([]seqRange, error) {
	var first, last sql.NullInt64
	err := r.db.QueryRow(`SELECT (SELECT min(seq) FROM samples), (SELECT max(seq) FROM samples)`).Scan(&first, &last)
	if err != nil {
		return nil, r.damaged("read seq", err)
	}
	if !first.Valid {
		return nil, nil
	}
	if first.Int64 < 0 {
		return nil, BadValue(r.path, "the seq of a sample", first.Int64)
	}
	n := int64(1)
	if last.Int64-first.Int64 >= inOnePart {
		n = int64(min(runtime.GOMAXPROCS(0), 4))
	}
	step := (last.Int64 - first.Int64) / n
	var out []seqRange
	for i := range n {
		part := seqRange{first.Int64 + i*step, first.Int64 + (i+1)*step - 1}
		if i == n-1 {
			part.last = last.Int64
		}
		out = append(out, part)
	}
	return out, nil
}

// inParts reads parts of the samples concurrently, each on its own connection. within is the end of a
// statement that reads a part by seq.
func (r *Run) inParts(parts []seqRange, f func(part int, d *reader, within string) error) error {
	var group errgroup.Group
	for i, p := range parts {
		group.Go(func() error {
			return r.bulk("read samples", func(d *reader) error {
				return f(i, d, fmt.Sprintf("WHERE seq BETWEEN %d AND %d ORDER BY seq", p.first, p.last))
			})
		})
	}
	return group.Wait()
}
