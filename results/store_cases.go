package results

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// splitParts reads stored parts: "192+1988", empty for none.
func splitParts(s string) ([]int, error) {
	if s == "" {
		return nil, nil
	}
	words := strings.Split(s, "+")
	parts := make([]int, len(words))
	for i, w := range words {
		n, err := strconv.Atoi(w)
		if err != nil || n < 1 {
			return nil, fmt.Errorf("part %q is not a positive number", w)
		}
		if n > MaxDimension {
			return nil, fmt.Errorf("part %d is above %d", n, int64(MaxDimension))
		}
		parts[i] = n
	}
	return parts, nil
}

// Validate returns an error that names an invalid field.
func (c Case) Validate() error {
	if c.M < 1 {
		return fmt.Errorf("case %v: M %d, expected at least 1", c, c.M)
	}
	if c.M > MaxDimension {
		return fmt.Errorf("case %v: M %d, expected at most %d", c, c.M, int64(MaxDimension))
	}
	for _, d := range c.Operation.Dims() {
		if v := *d.In(&c.Dims); v > MaxDimension {
			return fmt.Errorf("case %v: %s is %d, expected at most %d", c, d.Name, v, int64(MaxDimension))
		}
	}
	if err := c.Subject.Validate(); err != nil {
		return fmt.Errorf("case %v: %w", c, err)
	}
	return c.CheckExecution()
}

// CheckExecution is the part of [Case.Validate] that does not concern M and the subject.
func (c Case) CheckExecution() error {
	for _, f := range []struct {
		name, value string
		optional    bool
	}{{"device", c.Device, false}, {"kernel", c.Kernel, false}, {"label", c.Label, true}, {"regime", string(c.Regime), true}} {
		if f.value == "" && !f.optional {
			return fmt.Errorf("case %v has no %s", c, f.name)
		}
		if len(f.value) > MaxText {
			return fmt.Errorf("case at m%d: its %s has %d bytes, expected at most %d", c.M, f.name, len(f.value), MaxText)
		}
	}
	sum := 0
	for _, p := range c.Parts {
		if p < 1 || p > c.M {
			return fmt.Errorf("case %v has a part of %d rows, expected 1 to %d", c, p, c.M)
		}
		sum += p
	}
	switch {
	case len(c.Parts) > 0 && sum != c.M:
		return fmt.Errorf("parts of case %v add up to %d, expected %d", c, sum, c.M)
	case len(c.Parts) > 0 && !c.Divisible():
		return fmt.Errorf("case %v: %v %s is not split: its rows do not make parts that are contiguous", c, c.Operation, c.Size())
	case c.PadTo != 0 && !c.Paddable():
		return fmt.Errorf("case %v: %v is not padded", c, c.Operation)
	case c.PadTo != 0 && (c.PadTo < c.M || c.PadTo == c.M && !c.Copied || c.PadTo > MaxDimension):
		return fmt.Errorf("case %v is padded to %d, expected more than %d and at most %d", c, c.PadTo, c.M, int64(MaxDimension))
	case c.Copied && c.PadTo == 0:
		return fmt.Errorf("case %v has its rows copied and is not padded", c)
	case len(c.Parts) > 0 && c.PadTo != 0:
		return fmt.Errorf("case %v is both split and padded", c)
	case c.Threads < 0 || c.Threads > MaxDimension:
		return fmt.Errorf("case %v has %d threads", c, c.Threads)
	}
	if err := c.Launch.Validate(); err != nil {
		return fmt.Errorf("the launch of case %v is impossible: %w", c, err)
	}
	return nil
}

// AddCases stores cases, all or none, and returns them in order with their IDs. Equal cases share an ID. A
// stored case's missing label and launch are filled in, and those of the returned case.
func (r *Run) AddCases(cases []Case) ([]Case, error) {
	out := slices.Clone(cases)
	r.records.Lock()
	defer r.records.Unlock()
	told := map[int64]Case{}
	err := r.write("add cases", func(ctx context.Context, tx *sql.Tx) error {
		ids, err := r.newCaseStore(ctx, tx)
		if err != nil {
			return err
		}
		defer ids.close()
		for i := range out {
			c, changed, err := ids.add(ctx, out[i])
			if err != nil {
				return err
			}
			out[i].ID = c.ID
			out[i].Learn(c.Label, c.Launch)
			if changed {
				told[c.ID] = *c
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	for _, c := range told {
		r.tell(c)
	}
	return out, nil
}

const (
	insertSeries = `INSERT INTO series (id, operation, device, kernel, dims, operands, layout, regime, threads, pack_inside)
	VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`
	insertCase = `INSERT INTO cases (id, series, m, parts, pad_to, label, tile_m, tile_n, tile_k, waves, split, orientation)
	VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`
	updateCase = `UPDATE cases SET label = ?, tile_m = ?, tile_n = ?, tile_k = ?, waves = ?, split = ?, orientation = ? WHERE id = ?`
)

func bindSeries(id int64, k SeriesKey) ([]any, error) {
	i, err := identityOf(k)
	return []any{id, i.Operation, k.Device, k.Kernel, i.Dims, i.Operands, i.Layout, string(k.Regime), k.Threads, k.PackInside}, err
}

func bindCase(series int64, c Case) []any {
	return append([]any{c.ID, series, c.M, c.StoredParts(), c.PadTo, c.Label}, bindLaunch(c.Launch)...)
}

func bindTold(c Case) []any {
	return append(append([]any{c.Label}, bindLaunch(c.Launch)...), c.ID)
}

// Learn fills in a case's unknown label and launch; false if nothing is new.
func (c *Case) Learn(label string, launch Launch) bool {
	before, had := c.Label, c.Launch
	if c.Label == "" {
		c.Label = label
	}
	if c.Launch == (Launch{}) {
		c.Launch = launch
	}
	return c.Label != before || c.Launch != had
}

type caseStore struct {
	insertSeries, insertCase, update *sql.Stmt

	series               map[SeriesKey]int64
	cases                map[CaseKey]*Case // by identity
	lastSeries, lastCase int64
}

// newCaseStore reads the run's cases on its own connection, before the transaction has added any.
func (r *Run) newCaseStore(ctx context.Context, tx *sql.Tx) (*caseStore, error) {
	s := &caseStore{series: map[SeriesKey]int64{}, cases: map[CaseKey]*Case{}}
	err := r.bulk("read cases", func(d *reader) error {
		series, err := d.series()
		if err != nil {
			return err
		}
		for id, k := range series {
			s.series[k] = id
			s.lastSeries = max(s.lastSeries, id)
		}
		return d.cases(func(c Case) error {
			s.cases[c.Key()] = &c
			s.lastCase = max(s.lastCase, c.ID)
			return nil
		})
	})
	if err != nil {
		return nil, err
	}
	for _, p := range []struct {
		stmt **sql.Stmt
		sql  string
	}{{&s.insertSeries, insertSeries}, {&s.insertCase, insertCase}, {&s.update, updateCase}} {
		if *p.stmt, err = tx.PrepareContext(ctx, p.sql); err != nil {
			s.close()
			return nil, err
		}
	}
	return s, nil
}

func (s *caseStore) close() {
	for _, stmt := range []*sql.Stmt{s.insertSeries, s.insertCase, s.update} {
		if stmt != nil {
			stmt.Close()
		}
	}
}

// add stores a case and returns the stored form; changed means that it existed and got a new label or launch.
func (s *caseStore) add(ctx context.Context, c Case) (stored *Case, changed bool, err error) {
	c.ReadLabel()
	if err := c.Validate(); err != nil {
		return nil, false, err
	}
	key := c.Key()
	if old, ok := s.cases[key]; ok {
		if changed = old.Learn(c.Label, c.Launch); changed {
			_, err = s.update.ExecContext(ctx, bindTold(*old)...)
		}
		return old, changed, err
	}
	series, ok := s.series[c.SeriesKey]
	if !ok {
		series = s.lastSeries + 1
		values, err := bindSeries(series, c.SeriesKey)
		if err == nil {
			_, err = s.insertSeries.ExecContext(ctx, values...)
		}
		if err != nil {
			return nil, false, err
		}
		s.series[c.SeriesKey], s.lastSeries = series, series
	}
	c.ID = s.lastCase + 1
	if _, err := s.insertCase.ExecContext(ctx, bindCase(series, c)...); err != nil {
		return nil, false, err
	}
	s.lastCase = c.ID
	s.cases[key] = &c
	return &c, false, nil
}

// SetLaunch replaces a case's kernel name and launch. A name longer than [MaxText] is cut: kernels choose theirs.
func (r *Run) SetLaunch(caseID int64, label string, launch Launch) error {
	label = strings.ToValidUTF8(label[:min(len(label), MaxText)], "")
	c := Case{ID: caseID, Label: label, Launch: launch}
	c.ReadLabel()
	r.records.Lock()
	defer r.records.Unlock()
	err := r.write("set launch", func(ctx context.Context, tx *sql.Tx) error {
		if err := c.Launch.Validate(); err != nil {
			return fmt.Errorf("the launch of case %d is impossible: %w", caseID, err)
		}
		res, err := tx.ExecContext(ctx, updateCase, bindTold(c)...)
		if err != nil {
			return err
		}
		if n, err := res.RowsAffected(); err == nil && n == 0 {
			return fmt.Errorf("there is no case %d", caseID)
		}
		return nil
	})
	if err == nil {
		r.tell(c)
	}
	return err
}
