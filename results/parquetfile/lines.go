package parquetfile

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/results"
)

type parquetRun struct{ run, host, labels int32 }

type parquetCase struct {
	parquetRun
	device, kernel, dtype, regime, operation, layout, dims, operands int32
	m, n, k, threads                                                 int64
	inside                                                           bool
}

// mostParquetDevices limits the devices and ceilings of all runs of a file, since each run copies them.
const mostParquetDevices = 1 << 16

var errManyDevices = fmt.Errorf("its runs have more than %d devices", mostParquetDevices)

type exportedRun struct {
	Run
	keys    map[results.SeriesKey]int // places in Series
	devices map[string]bool           // ids in the fingerprint
}

type exportedCase struct {
	run       *exportedRun
	c         results.Case
	samples   []results.Sample
	sustained []results.Sample
}

func (r *parquetReader) line(l *parquetLine) error {
	text := r.texts.list
	phase := results.Phase(cmp.Or(text[l.phase], string(results.PhaseSweep)))
	switch phase {
	case results.PhaseSweep, results.PhaseSentinel, results.PhaseSustained:
	default:
		return nil
	}
	if l.parts != 0 || l.padTo != 0 {
		return nil
	}
	l.inside = l.packs != 0
	c := r.cases[l.parquetCase]
	if c == nil {
		var err error
		if c, err = r.newCase(l); err != nil {
			return err
		}
	}
	if l.ceilings != 0 {
		if _, known := c.run.Meta.Ceilings[c.c.Device]; !known {
			rates, decoded := r.rates[l.ceilings]
			if !decoded {
				err := results.DecodeJSON(text[l.ceilings], &rates)
				if err == nil {
					err = results.CheckCeilings(rates)
				}
				if err != nil {
					return fmt.Errorf("ceilings of device %.40q: %w", c.c.Device, err)
				}
				r.rates[l.ceilings] = rates
			}
			c.run.Meta.Ceilings[c.c.Device] = rates
		}
	}
	s := results.Sample{CaseID: c.c.ID, Phase: phase, Round: int(l.round), Seq: l.seq, StartedUnixMicro: l.started, Launches: 1,
		US: l.us, ClockMHz: l.clock, PowerW: l.power, TempC: l.temp, Throttle: kernels.Throttle(text[l.throttle])}
	if err := s.Check(); err != nil {
		return fmt.Errorf("%v: %w", s, err)
	}
	switch phase {
	case results.PhaseSweep:
		c.samples = append(c.samples, s)
	case results.PhaseSentinel:
		c.run.Sentinels = append(c.run.Sentinels, s)
	default:
		c.sustained = append(c.sustained, s)
	}
	return nil
}

func (r *parquetReader) newCase(l *parquetLine) (*exportedCase, error) {
	id, text := l.parquetCase, r.texts.list
	run := r.runs[id.parquetRun]
	if run == nil {
		labels, err := results.DecodeLabels(text[l.labels])
		if err != nil {
			return nil, err
		}
		run = &exportedRun{Run: Run{Run: text[l.run], Host: text[l.host], Labels: labels, Cards: map[string]string{},
			Meta: r.meta}, keys: map[results.SeriesKey]int{},
			devices: map[string]bool{}}
		run.Meta.Ceilings = map[string]kernels.Ceilings{}
		for device, c := range r.meta.Ceilings {
			run.Meta.Ceilings[device] = c
		}
		run.Meta.Fingerprint.Devices = slices.Clone(r.meta.Fingerprint.Devices)
		run.Meta.Fingerprint.Hostname = cmp.Or(run.Host, r.meta.Fingerprint.Hostname)
		run.Host = run.Meta.Fingerprint.Hostname
		for _, d := range run.Meta.Fingerprint.Devices {
			run.devices[d.ID] = true
		}
		if r.devices += 1 + len(run.devices) + len(run.Meta.Ceilings); r.devices > mostParquetDevices {
			return nil, errManyDevices
		}
		r.runs[id.parquetRun] = run
		r.order = append(r.order, run)
	}
	c := results.Case{ID: int64(len(r.caseOf)) + 1, M: int(id.m),
		SeriesKey: results.SeriesKey{Device: text[l.device], Kernel: text[l.kernel],
			Regime: results.Regime(text[l.regime]), Threads: int(id.threads), PackInside: id.inside}}
	if err := exportedSubject(&c.Subject, id, text); err != nil {
		return nil, err
	}
	if err := c.Validate(); err != nil {
		return nil, err
	}
	if card := text[l.card]; card != "" {
		run.Cards[c.Device] = card
	}
	if !run.devices[c.Device] {
		if r.devices++; r.devices > mostParquetDevices {
			return nil, errManyDevices
		}
		run.devices[c.Device] = true
		devices := &run.Meta.Fingerprint.Devices
		*devices = append(*devices,
			kernels.Spec{ID: c.Device, Kind: kernels.KindOf(c.Device), Name: cmp.Or(text[l.model], c.Device), UUID: text[l.card]})
	}
	out := &exportedCase{run: run, c: c}
	r.cases[id] = out
	r.caseOf = append(r.caseOf, out)
	return out, nil
}

func exportedSubject(s *kernels.Subject, id parquetCase, texts []string) (err error) {
	if name := texts[id.operation]; name != "" {
		if s.Operation, err = kernels.ParseOperation(name); err != nil {
			return err
		}
	}
	if s.DType, err = kernels.ParseDType(texts[id.dtype]); err != nil {
		return err
	}
	if s.Operation.IsDefault() {
		s.N, s.K = int(id.n), int(id.k)
	}
	if text := texts[id.dims]; text != "" {
		var dims map[string]int
		if err := results.DecodeJSON(text, &dims); err != nil {
			return fmt.Errorf("dims %.80q: expected a JSON object of whole numbers", text)
		}
		for _, d := range s.Operation.Dims() {
			*d.In(&s.Dims) = dims[d.Name]
		}
	}
	if text := texts[id.layout]; text != "" {
		if s.Layout, err = kernels.ParseLayout(text); err != nil {
			return err
		}
	}
	if text := texts[id.operands]; text != "" {
		if err := results.ReadOperands(text, s); err != nil {
			return fmt.Errorf("operands %.80q: expected a JSON object of operands", text)
		}
	}
	return s.Validate()
}

// result sorts the data like [results.Run.Load].
func (r *parquetReader) result() []Run {
	bySeq := func(a, b results.Sample) int { return cmp.Compare(a.Seq, b.Seq) }
	for _, c := range r.caseOf {
		if !slices.IsSortedFunc(c.samples, bySeq) {
			slices.SortFunc(c.samples, bySeq)
		}
		if len(c.sustained) > 0 {
			slices.SortFunc(c.sustained, bySeq)
			c.run.Sustained = append(c.run.Sustained, results.Row{Case: c.c, Samples: c.sustained})
		}
		if len(c.samples) == 0 {
			continue
		}
		at, ok := c.run.keys[c.c.SeriesKey]
		if !ok {
			at = len(c.run.Series)
			c.run.keys[c.c.SeriesKey] = at
			c.run.Series = append(c.run.Series, results.Series{Key: c.c.SeriesKey, Peak: results.PeakOf(c.run.Meta, c.c.SeriesKey),
				Bandwidth: c.run.Meta.Ceilings[c.c.Device].Bandwidth(c.c.Operation)})
		}
		s := &c.run.Series[at]
		s.Rows = append(s.Rows, results.Row{Case: c.c, Samples: c.samples})
	}
	var out []Run
	for _, run := range r.order {
		if !slices.IsSortedFunc(run.Sentinels, bySeq) {
			slices.SortFunc(run.Sentinels, bySeq)
		}
		for i := range run.Series {
			rows := run.Series[i].Rows
			slices.SortFunc(rows, func(a, b results.Row) int {
				return cmp.Or(cmp.Compare(a.Case.M, b.Case.M), cmp.Compare(a.Case.ID, b.Case.ID))
			})
		}
		slices.SortFunc(run.Series, func(a, b results.Series) int { return a.Key.Compare(b.Key) })
		if run.Meta.Created.IsZero() {
			run.Meta.Created = firstStart(run.Series)
		}
		out = append(out, run.Run)
	}
	return out
}

// firstStart returns the time of the curves' first sample, zero if unknown.
func firstStart(series []results.Series) time.Time {
	var first int64
	for _, s := range series {
		for _, row := range s.Rows {
			for i := range row.Samples {
				if at := row.Samples[i].StartedUnixMicro; at > 0 && (first == 0 || at < first) {
					first = at
				}
			}
		}
	}
	if first == 0 {
		return time.Time{}
	}
	return time.UnixMicro(first).UTC()
}
