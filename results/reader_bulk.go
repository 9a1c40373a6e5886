package results

import (
	"errors"
	"fmt"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/results/direct"
)

// reader reads the tables of a run of either schema version on its own connection.
type reader struct {
	db     *direct.DB
	schema int
	bytes  int64 // of the file and its journal
	hosted bool  // the run has host times
	words  map[string]string
	last   [sampleWords]string // of the text columns of samples
	text   int64               // new text bytes in this query
	err    error               // of a text in this row
}

const sampleWords = 3

// bulk calls f with a connection for reading. Invalid rows are a [FormatError]; tried names the action.
func (r *Run) bulk(tried string, f func(d *reader) error) error {
	d, err := r.newReader()
	if err != nil {
		return describe(r.path, tried, err)
	}
	err = f(d)
	return r.damaged(tried, errors.Join(err, d.close()))
}

func (r *Run) newReader() (*reader, error) {
	uri, err := databaseURI(r.file, r.mode)
	if err != nil {
		return nil, err
	}
	db, err := direct.Open(uri, "busy_timeout=2000", "trusted_schema=0", "query_only=1", "cache_size=-4096")
	if err != nil {
		return nil, err
	}
	d := &reader{
		db: db, schema: r.schema, words: map[string]string{string(PhaseSweep): string(PhaseSweep)},
		bytes: size(r.file) + size(r.file+"-wal"),
	}
	if d.hosted, err = d.hasTable("host_times"); err != nil {
		return nil, errors.Join(err, d.close())
	}
	return d, nil
}

func (d *reader) close() error { return d.db.Close() }

// leastRowBytes is below the size of any table's row in a file.
const leastRowBytes = 8

// query passes each row of a statement, one per table row, to each. In a damaged file pages may form cycles:
// more rows or text than the file can hold are an error, before memory runs out.
func (d *reader) query(q string, each func(s *direct.Stmt) error) error {
	s, err := d.db.Prepare(q)
	if err != nil {
		return err
	}
	defer s.Close()
	d.text = 0
	for rows := int64(1); ; rows++ {
		row, err := s.Step()
		if err != nil || !row {
			return err
		}
		if rows*leastRowBytes > d.room() {
			return fmt.Errorf("row %d of a table: the file has %d bytes", rows, d.bytes)
		}
		if err := errors.Join(each(s), d.err); err != nil {
			return err
		}
	}
}

// room is the maximum size of a table in bytes. A writer may have extended the file since it was opened.
func (d *reader) room() int64 { return 2*d.bytes + 1<<16 }

// mostWords limits the stored texts; later texts rarely repeat.
const mostWords = 1 << 16

// word returns a text column. Equal texts share memory.
func (d *reader) word(s *direct.Stmt, i int) string {
	return d.keep(s.Text(i))
}

func (d *reader) long(s *direct.Stmt, i int) string {
	text := s.Text(i)
	if d.text += int64(len(text)); d.text > d.room() {
		d.err = fmt.Errorf("a column of text continues beyond %d bytes: the file has %d", d.text, d.bytes)
		return ""
	}
	return string(text)
}

func (d *reader) keep(text []byte) string {
	if w, ok := d.words[string(text)]; ok {
		return w
	}
	if len(text) > MaxText {
		d.err = fmt.Errorf("a word of %d bytes, expected at most %d", len(text), MaxText)
		return ""
	}
	if d.text += int64(len(text)); d.text > d.room() {
		d.err = fmt.Errorf("words of more than %d bytes: the file has %d", d.text, d.bytes)
		return ""
	}
	w := string(text)
	if len(d.words) < mostWords {
		d.words[w] = w
	}
	return w
}

// again is word for a column that usually repeats the previous row's value.
func (d *reader) again(s *direct.Stmt, i, column int) string {
	text := s.Text(i)
	if last := d.last[column]; string(text) == last {
		return last
	}
	w := d.keep(text)
	d.last[column] = w
	return w
}

func (d *reader) series() (map[int64]SeriesKey, error) {
	q := `SELECT id, device, kernel, regime, threads, pack_inside, operation, dims, operands, layout FROM series`
	if d.schema < 2 {
		q = `SELECT id, device, kernel, regime, threads, pack_inside, dtype, n, k FROM series`
	}
	out := map[int64]SeriesKey{}
	err := d.query(q, func(s *direct.Stmt) error {
		id := s.Int(0)
		k := SeriesKey{
			Device: d.word(s, 1), Kernel: d.word(s, 2), Regime: Regime(d.word(s, 3)),
			Threads: int(s.Int(4)), PackInside: s.Int(5) != 0,
		}
		if d.schema < 2 {
			k.DType, k.N, k.K = kernels.DType(d.word(s, 6)), int(s.Int(7)), int(s.Int(8))
		} else if err := (Identity{d.word(s, 6), d.word(s, 7), d.word(s, 8), d.word(s, 9)}).fill(&k); err != nil {
			return fmt.Errorf("series %d: %w", id, err)
		}
		out[id] = k
		return s.Err()
	})
	return out, err
}

const caseColumns = `id, series, m, parts, pad_to, label`

func (d *reader) cases(each func(Case) error) error {
	series, err := d.series()
	if err != nil {
		return err
	}
	q := `SELECT ` + caseColumns + `, tile_m, tile_n, tile_k, waves, split, orientation FROM cases ORDER BY id`
	if d.schema < 2 {
		q = `SELECT ` + caseColumns + ` FROM cases ORDER BY id`
	}
	return d.query(q, func(s *direct.Stmt) error {
		c := Case{ID: s.Int(0), M: int(s.Int(2)), PadTo: int(s.Int(4)), Label: d.word(s, 5)}
		k, ok := series[s.Int(1)]
		if !ok {
			return fmt.Errorf("case %d belongs to series %d, which is not there", c.ID, s.Int(1))
		}
		c.SeriesKey = k
		if d.schema >= 2 {
			c.Launch = d.launch(s, 6)
		}
		c.ReadLabel()
		var err error
		if err = c.ReadParts(d.long(s, 3)); err != nil {
			return fmt.Errorf("case %d: %w", c.ID, err)
		}
		if err := errors.Join(s.Err(), c.Validate()); err != nil {
			return fmt.Errorf("case %d: %w", c.ID, err)
		}
		return each(c)
	})
}

func (d *reader) launch(s *direct.Stmt, i int) (l Launch) {
	for t := range l.Tile {
		if !s.Null(i + t) {
			l.Tile[t] = int(s.Int(i + t))
		}
	}
	if !s.Null(i + 3) {
		l.Waves = s.Float(i + 3)
	}
	if !s.Null(i + 4) {
		l.Split = int(s.Int(i + 4))
	}
	if !s.Null(i + 5) {
		l.Orientation = d.word(s, i+5)
	}
	return l
}

const (
	keyColumns    = `seq, case_id, phase, round`
	figureColumns = `started_us, launches, us, clock_mhz, power_w, temp_c, throttle, disturbance`
)

func (d *reader) sampleColumns() string {
	if d.schema < 2 {
		return keyColumns + `, ` + figureColumns + `, 0, NULL, 0.0, 0, NULL`
	}
	host := `NULL`
	if d.hosted {
		host = `(SELECT h.host_us FROM host_times h WHERE h.seq = samples.seq)`
	}
	return keyColumns + `, ` + figureColumns + `, allocation, energy_mj, utils, origin, ` + host
}

// sample reads a row of sampleColumns, with its origin ID, 0 in version 1.
func (d *reader) sample(s *direct.Stmt, x *Sample) (origin int64, err error) {
	// Field by field: a literal would be built elsewhere and copied.
	x.Seq, x.CaseID, x.Phase, x.Round = s.Int(0), s.Int(1), Phase(d.again(s, 2, 0)), int(s.Int(3))
	x.StartedUnixMicro, x.Launches, x.US = s.Int(4), int(s.Int(5)), s.Float(6)
	x.ClockMHz, x.PowerW, x.TempC = s.Float(7), s.Float(8), s.Float(9)
	x.Throttle, x.Disturbance = kernels.Throttle(d.again(s, 10, 1)), d.again(s, 11, 2)
	x.Allocation, x.Utils, x.EnergyMJ, x.HostUS = int(s.Int(12)), s.Float(14), 0, 0
	if !s.Null(13) {
		x.EnergyMJ = s.Float(13)
	}
	if !s.Null(16) {
		x.HostUS = s.Float(16)
	}
	origin = s.Int(15)
	if err := s.Err(); err != nil {
		return 0, fmt.Errorf("%v: %w", *x, err)
	}
	if err := x.Check(); err != nil {
		return 0, fmt.Errorf("%v: %w", *x, err)
	}
	return origin, nil
}
