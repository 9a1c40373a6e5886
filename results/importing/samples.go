package importing

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/gemmaudit/gemmaudit/results"
	"github.com/gemmaudit/gemmaudit/results/export"
	"github.com/gemmaudit/gemmaudit/results/producer"
)

var oldColumns = []string{"started_us"}

var otherColumns = func() []string {
	out := []string{batchColumn, dispositionColumn}
	for _, t := range producer.TimeColumns[1:] { // us is an export column
		out = append(out, t.Name)
	}
	return out
}()

const (
	// batchColumn is the number of products per launch.
	batchColumn = "batch_count"
	// dispositionColumn is a benchmark's validation of its own result.
	dispositionColumn = "disposition"
)

// otherMeaning are columns of BLAS and benchmarks that change a line's computation. A samples CSV has
// contiguous row-major products, so other lines would be misread.
var otherMeaning = []string{"transa", "transb", "lda", "ldb", "ldc", "ldd", "stride_a", "stride_b", "stride_c", "stride_d", "grouped_gemm"}

// needed is a required column of a samples CSV, or a flag that replaces it.
type needed struct {
	column, flag string
	given        bool
}

// lacking returns an error that names all missing columns, or nil.
func (f *csvFile) lacking(needs []needed) error {
	var columns, flags []string
	free := true // whether flags can replace all of them
	for _, need := range needs {
		if f.has(need.column) || need.given {
			continue
		}
		columns = append(columns, need.column)
		if need.flag == "" {
			free = false
		} else {
			flags = append(flags, need.flag)
		}
	}
	if len(columns) == 0 {
		return nil
	}
	err := &Error{Path: f.path, Line: 1,
		Reason: fmt.Sprintf("there %s %s", plural(len(columns), "is no column", "are no columns"), strings.Join(columns, ", "))}
	if free {
		err.Hint = "give " + strings.Join(flags, " ") + ", or add the " + plural(len(columns), "column", "columns")
	}
	return whole(err)
}

func plural(n int, one, many string) string {
	if n == 1 {
		return one
	}
	return many
}

func (p *parsed) samples(f *csvFile, opt Options) error {
	if err := f.lacking([]needed{
		{"device", "--device-name NAME", opt.Device != ""},
		{"kernel", "--kernel NAME", opt.Kernel != ""},
		{"dtype", "--dtype TYPE", opt.DType != ""},
		{"n", "--n N", opt.N > 0},
		{"k", "--k K", opt.K > 0},
	}); err != nil {
		return err
	}
	var unread []string
	for _, name := range otherMeaning {
		if f.has(name) {
			unread = append(unread, name)
		}
	}
	if len(unread) > 0 {
		return whole(&Error{Path: f.path, Line: 1,
			Reason: fmt.Sprintf("columns %s change what a row computes, and a samples CSV has no place for them",
				strings.Join(unread, ", ")),
			Hint: "give the benchmark's own output (`gemmaudit import --list-formats`); remove the columns if every row is a row-major " +
				"product without padding"})
	}
	if extra := f.ignored(slices.Concat(export.SamplesColumns, oldColumns, otherColumns)); len(extra) > 0 {
		p.warnings = append(p.warnings, fmt.Sprintf("%s: ignored columns %s", f.path, strings.Join(extra, ", ")))
	}
	if opt.Library != "" {
		name, version, _ := strings.Cut(opt.Library, " ")
		p.versions[name] = version
	}
	l := newSampleLine(f, opt)
	return p.each(f, opt, func() (record, error) {
		err := l.read(p)
		rec := l.rec
		p.assumeLayout(rec.c.Kernel, rec.c.Subject, opt.Layout != "" || f.has("layout"))
		p.naming.name(&rec)
		return rec, err
	})
}

// sampleLine reads lines of a samples CSV into rec. Columns and their targets are looked up once for all
// lines.
type sampleLine struct {
	f   *csvFile
	rec record

	words   []wordColumn
	sizes   []sizeColumn
	figures []figureColumn
	orders  []orderColumn

	subjects              subjectColumns
	us                    timeColumn
	inside, parts, labels column
	batch, disposition    column
	ceilings, started     column
	reference             column
	lastLabels            string    // the previous line's cell
	runWide               [2]column // distribution and seed
	runCells              [2]string // the previous line's cells
}

type wordColumn struct {
	column
	to       *string
	given    string // from an option, which overrides the column
	fallback string
	required bool
}

type sizeColumn struct {
	column
	to       *int
	least    int64
	given    int // from an option, which must not contradict the column
	optional bool
}

type figureColumn struct {
	column
	to *float64
}

type orderColumn struct {
	column
	to *int64
}

func newSampleLine(f *csvFile, opt Options) *sampleLine {
	l := &sampleLine{f: f}
	c, s, o := &l.rec.c, &l.rec.s, &l.rec.o
	for _, w := range []wordColumn{
		{column: f.column("device"), to: &c.Device, given: opt.Device, required: true},
		{column: f.column("kernel"), to: &c.Kernel, given: opt.Kernel, required: true},
		{column: f.column("phase"), to: (*string)(&s.Phase), fallback: string(results.PhaseSweep)},
		{column: f.column("regime"), to: (*string)(&c.Regime), given: string(opt.Regime)},
		{column: f.column("label"), to: &c.Label},
		{column: f.column("throttle"), to: (*string)(&s.Throttle)},
		{column: f.column("disturbance"), to: &s.Disturbance},
		{column: f.column("orientation"), to: &c.Launch.Orientation},
		{column: f.column("run"), to: &o.run},
		{column: f.column("host"), to: &o.host},
		{column: f.column("device_name"), to: &o.name},
		{column: f.column("card"), to: &o.card},
		{column: f.column("labels"), to: &o.labels},
	} {
		if f.has(w.name) || w.required || w.given != "" || w.fallback != "" {
			l.words = append(l.words, w)
		}
	}
	for _, d := range []sizeColumn{
		{column: f.column("m"), to: &c.M, least: 1},
		{column: f.column("round"), to: &s.Round, optional: !f.has("round")},
		{column: f.column("threads"), to: &c.Threads, optional: true},
		{column: f.column("pad_to"), to: &c.PadTo, optional: true},
		{column: f.column("launches"), to: &s.Launches, least: 1, optional: true},
		{column: f.column("allocation"), to: &s.Allocation, optional: true},
		{column: f.column("tile_m"), to: &c.Launch.Tile[0], optional: true},
		{column: f.column("tile_n"), to: &c.Launch.Tile[1], optional: true},
		{column: f.column("tile_k"), to: &c.Launch.Tile[2], optional: true},
		{column: f.column("split"), to: &c.Launch.Split, optional: true},
	} {
		if f.has(d.name) || !d.optional {
			l.sizes = append(l.sizes, d)
		}
	}
	for _, n := range []figureColumn{
		{f.column("clock_mhz"), &s.ClockMHz}, {f.column("power_w"), &s.PowerW}, {f.column("temp_c"), &s.TempC},
		{f.column("energy_mj"), &s.EnergyMJ}, {f.column("host_us"), &s.HostUS}, {f.column("utils"), &s.Utils},
		{f.column("waves"), &c.Launch.Waves},
	} {
		if f.has(n.name) {
			l.figures = append(l.figures, n)
		}
	}
	l.orders = []orderColumn{{f.column("seq"), &s.Seq}, {f.column("started_us"), &s.StartedUnixMicro}}
	l.subjects = newSubjectColumns(f, opt, &c.Subject)
	l.rec.counted = !f.has("round")
	l.us, l.inside, l.parts, l.labels = f.time(), f.column("pack_inside"), f.column("parts"), f.column("labels")
	l.batch, l.disposition = f.column(batchColumn), f.column(dispositionColumn)
	l.ceilings, l.started, l.reference = f.column("ceilings"), f.column("started"), f.column("reference_clock_mhz")
	l.runWide = [2]column{f.column("distribution"), f.column("seed")}
	return l
}

func (l *sampleLine) read(p *parsed) error {
	f, c, s := l.f, &l.rec.c, &l.rec.s
	l.rec.path, l.rec.line = f.path, f.line
	for i := range l.words {
		if err := l.word(&l.words[i]); err != nil {
			return err
		}
	}
	if err := l.subject(); err != nil {
		return err
	}
	for i := range l.sizes {
		if err := l.size(&l.sizes[i]); err != nil {
			return err
		}
	}
	if s.Launches == 0 {
		s.Launches = 1
	}
	if err := l.meaning(); err != nil {
		return err
	}
	if err := l.measured(); err != nil {
		return err
	}
	if err := f.execution(c, l.inside, l.parts); err != nil {
		return err
	}
	// Usually equal to the previous line's.
	if cell := l.rec.o.labels; cell != l.lastLabels {
		if _, err := results.DecodeLabels(cell); err != nil {
			return f.fail(l.labels.name, "is refused: %v", err)
		}
		l.lastLabels = cell
	}
	if err := l.begun(); err != nil {
		return err
	}
	if err := p.rates(l); err != nil {
		return err
	}
	if err := p.clock(l); err != nil {
		return err
	}
	// Usually equal to the previous line's.
	cells := [2]string{f.in(l.runWide[0]), f.in(l.runWide[1])}
	if cells == l.runCells {
		return nil
	}
	l.runCells = [2]string{strings.Clone(cells[0]), strings.Clone(cells[1])}
	return p.conditions(f)
}

func (l *sampleLine) meaning() error {
	f, c := l.f, &l.rec.c
	if f.in(l.batch) != "" {
		n, err := f.dimensionIn(l.batch, 1)
		if err != nil {
			return err
		}
		if n > 1 {
			c.Products = n
		}
	}
	switch s := strings.ToLower(f.in(l.disposition)); s {
	case "", "passed", "not_verified":
		return nil
	}
	return f.fail(l.disposition.name, "is no result: expected passed or not_verified")
}

func (l *sampleLine) word(w *wordColumn) error {
	f := l.f
	if w.given != "" {
		if cell := f.in(w.column); cell != "" && cell != w.given {
			if w.name == "regime" {
				return f.contradicts(w.name, "--regime", w.given)
			}
			if says := fmt.Sprintf("column %s is overruled: every row is of %q", w.name, w.given); !slices.Contains(f.notes, says) {
				f.notes = append(f.notes, says)
			}
		}
		*w.to = w.given
		return nil
	}
	v, err := f.textIn(w.column)
	if err != nil {
		return err
	}
	if v == "" {
		if w.required {
			return f.fail(w.name, "is missing")
		}
		v = w.fallback
	}
	*w.to = v
	return nil
}

func (l *sampleLine) size(d *sizeColumn) error {
	f := l.f
	if f.in(d.column) == "" && (d.optional || d.given > 0) {
		*d.to = d.given
		return nil
	}
	var err error
	if *d.to, err = f.dimensionIn(d.column, d.least); err != nil {
		return err
	}
	if d.given > 0 && *d.to != d.given {
		return f.contradicts(d.name, "--"+d.name, strconv.Itoa(d.given))
	}
	return nil
}

func (l *sampleLine) measured() (err error) {
	f, s := l.f, &l.rec.s
	if s.US, err = f.microsecondsIn(l.us); err != nil {
		return err
	}
	for _, n := range l.figures {
		if *n.to, err = f.optionalIn(n.column); err != nil {
			return err
		}
	}
	l.rec.placed = f.in(l.orders[0].column) != ""
	for _, n := range l.orders {
		*n.to = 0
		if f.in(n.column) == "" {
			continue
		}
		if *n.to, err = f.whole(n.column, 0); err != nil {
			return err
		}
		// Numbers are shifted after those of earlier files; the limit keeps the sum in range.
		if n.name == "seq" && *n.to > 1<<53 {
			return f.fail(n.name, "is above %d", int64(1)<<53)
		}
	}
	return nil
}

func (l *sampleLine) begun() error {
	cell := l.f.in(l.started)
	if cell == "" {
		return nil
	}
	at, err := export.ParseInstant(cell)
	if err != nil {
		return l.f.fail(l.started.name, "%v", err)
	}
	l.rec.s.StartedUnixMicro = int64(at)
	return nil
}

func (f *csvFile) execution(c *results.Case, inside, parts column) (err error) {
	c.PackInside, c.Parts = false, nil
	if s := f.in(inside); s != "" {
		if c.PackInside, err = strconv.ParseBool(s); err != nil {
			return f.fail(inside.name, "is neither true nor false")
		}
	}
	if err = c.ReadParts(f.in(parts)); err != nil {
		return f.fail(parts.name, "is not a sum of parts: %v", err)
	}
	// M and the subject were checked when read, the subject once for all lines that share it.
	if err := c.CheckExecution(); err != nil {
		return &Error{Path: f.path, Line: f.line, Reason: err.Error()}
	}
	return nil
}
