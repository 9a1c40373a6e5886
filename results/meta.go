package results

import (
	"cmp"
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/gemmaudit/gemmaudit/kernels"
)

// Meta is what is known about a run as a whole.
type Meta struct {
	// Schema is the version of the file; it is [SchemaVersion] for new runs and for
	// those that are open for appending, whatever was asked for.
	Schema    int       `json:"schema"`
	Created   time.Time `json:"created"`
	Command   string    `json:"command"`
	Gemmaudit string    `json:"gemmaudit"` // version of the program that measured
	// Fingerprint is the machine.
	Fingerprint Fingerprint `json:"fingerprint"`
	// Labels are what the user calls the machine by.
	Labels Labels `json:"labels,omitempty"`
	// Ceilings are the rates of each device, by its id.
	Ceilings map[string]kernels.Ceilings `json:"ceilings,omitempty"`
	// Plan is the sweep's own account of what it set out to do. This package
	// stores it and compares it on a merge, and knows of it the series alone: see [Meta.Series].
	Plan         json.RawMessage      `json:"plan,omitempty"`
	Regime       Regime               `json:"regime"`
	Distribution kernels.Distribution `json:"distribution"`
	Seed         uint64               `json:"seed"`
	// ReferenceClock is the clock in MHz at which times of a device are judged, by the
	// device's id; a device is missing whose clock is not known.
	ReferenceClock map[string]float64 `json:"reference_clock,omitempty"`
	// Source is empty for a measured run, else the files it was imported from.
	Source string `json:"source,omitempty"`
}

// metaField is one field of Meta as it is stored: a row of its own, so that a
// run can be looked into with any SQLite shell.
type metaField struct {
	key   string
	write func(m *Meta) (string, error)
	read  func(m *Meta, s string) error
	since int // the schema version that brought it, 0 for the first
	// optional is set of a field that a run of any version may lack.
	optional bool
}

func jsonField[T any](key string, at func(m *Meta) *T) metaField {
	return metaField{
		key: key,
		write: func(m *Meta) (string, error) {
			b, err := json.Marshal(at(m))
			return string(b), err
		},
		read: func(m *Meta, s string) error { return decodeJSON(s, at(m)) },
	}
}

func textField[T ~string](key string, at func(m *Meta) *T) metaField {
	return metaField{
		key:   key,
		write: func(m *Meta) (string, error) { return string(*at(m)), nil },
		read:  func(m *Meta, s string) error { *at(m) = T(s); return nil },
	}
}

// keyReferenceClock and keyRun are rows of the table meta.
const (
	keyReferenceClock = "reference_clock"
	keyRun            = "run" // the run's own id, which is no field of Meta
)

// mostRate bounds what a device computes or moves in a second: products of a rate and a time
// that is believed are finite.
const mostRate = 1e24

// mostPeaks bounds the peaks of a device: there is one for a data type and an origin.
const mostPeaks = 1 << 8

// checkRates names a rate that no device has; nil for none.
func checkRates(c kernels.Ceilings) error {
	if len(c.Peaks) > mostPeaks {
		return fmt.Errorf("%d peaks, expected at most %d", len(c.Peaks), mostPeaks)
	}
	check := func(name string, v, most float64) error {
		if !(v >= 0 && v <= most) {
			return fmt.Errorf("%s is %v, expected 0 to %g", name, v, most)
		}
		return nil
	}
	errs := []error{check("read_bandwidth", c.ReadBandwidth, mostRate), check("copy_bandwidth", c.CopyBandwidth, mostRate),
		check("link_bandwidth", c.LinkBandwidth, mostRate)}
	for _, p := range c.Peaks {
		errs = append(errs, check("flops", p.FLOPS, mostRate), check("clock_mhz", p.ClockMHz, mostFigure), check("rate", p.Memory.Rate, mostRate))
	}
	return cmp.Or(errs...)
}

var referenceClock = metaField{
	key: keyReferenceClock,
	write: func(m *Meta) (string, error) {
		if len(m.ReferenceClock) == 0 {
			return "{}", nil
		}
		b, err := json.Marshal(m.ReferenceClock)
		return string(b), err
	},
	read: func(m *Meta, s string) error {
		clocks := map[string]float64{}
		if err := decodeJSON(s, &clocks); err != nil {
			return err
		}
		for device, mhz := range clocks {
			if !(mhz > 0 && mhz <= mostFigure) {
				return fmt.Errorf("%v MHz of device %.40q", mhz, device)
			}
		}
		if len(clocks) > 0 {
			m.ReferenceClock = clocks
		}
		return nil
	},
	since: 2,
}

var metaFields = []metaField{
	{
		key:   "created",
		write: func(m *Meta) (string, error) { return m.Created.UTC().Format(time.RFC3339Nano), nil },
		read: func(m *Meta, s string) (err error) {
			m.Created, err = time.Parse(time.RFC3339Nano, s)
			return err
		},
	},
	textField("command", func(m *Meta) *string { return &m.Command }),
	textField("gemmaudit", func(m *Meta) *string { return &m.Gemmaudit }),
	jsonField("fingerprint", func(m *Meta) *Fingerprint { return &m.Fingerprint }),
	{
		key:   "ceilings",
		write: func(m *Meta) (string, error) { b, err := json.Marshal(m.Ceilings); return string(b), err },
		read: func(m *Meta, s string) error {
			if err := decodeJSON(s, &m.Ceilings); err != nil {
				return err
			}
			for device, c := range m.Ceilings {
				if err := checkRates(c); err != nil {
					return fmt.Errorf("device %.40q: %w", device, err)
				}
			}
			return nil
		},
	},
	{
		key: "plan",
		write: func(m *Meta) (string, error) {
			if len(m.Plan) > 0 && !json.Valid(m.Plan) {
				return "", fmt.Errorf("not JSON: %.40q", m.Plan)
			}
			return string(m.Plan), nil
		},
		read: func(m *Meta, s string) error {
			if s == "" {
				return nil
			}
			if !json.Valid([]byte(s)) {
				return fmt.Errorf("not JSON")
			}
			m.Plan = json.RawMessage(s)
			return nil
		},
	},
	textField("regime", func(m *Meta) *Regime { return &m.Regime }),
	textField("distribution", func(m *Meta) *kernels.Distribution { return &m.Distribution }),
	{
		key:   "seed",
		write: func(m *Meta) (string, error) { return strconv.FormatUint(m.Seed, 10), nil },
		read: func(m *Meta, s string) (err error) {
			m.Seed, err = strconv.ParseUint(s, 10, 64)
			return err
		},
	},
	textField("source", func(m *Meta) *string { return &m.Source }),
	referenceClock,
	{
		key:   "labels",
		write: func(m *Meta) (string, error) { return encodeLabels(m.Labels), m.Labels.Check() },
		read: func(m *Meta, s string) (err error) {
			m.Labels, err = decodeLabels(s)
			return err
		},
		since:    2,
		optional: true,
	},
}

// putMeta stores a row of the table meta.
const putMeta = `INSERT OR REPLACE INTO meta (key, value) VALUES (?, ?)`

// writeMeta gives every field to put, under its key.
func writeMeta(meta Meta, put func(key, value string) error) error {
	for _, f := range metaFields {
		value, err := f.write(&meta)
		if err != nil {
			return fmt.Errorf("meta field %s: %w", f.key, err)
		}
		if err := put(f.key, value); err != nil {
			return err
		}
	}
	return nil
}

// putMetaIn stores rows of the table meta within a transaction.
func putMetaIn(ctx context.Context, tx *sql.Tx) func(key, value string) error {
	return func(key, value string) error {
		_, err := tx.ExecContext(ctx, putMeta, key, value)
		return err
	}
}

// readMeta is the inverse of writeMeta for the run's schema version; run is the id of the run,
// empty for version 1. A missing or unreadable field is a [FormatError].
func (r *Run) readMeta() (meta Meta, run string, err error) {
	meta = Meta{Schema: r.schema}
	stored, err := r.pairs("read meta", `SELECT key, value FROM meta`)
	if err != nil {
		return meta, "", err
	}
	for _, f := range metaFields {
		s, ok := stored[f.key]
		if !ok && (f.optional || f.since > r.schema) {
			continue
		}
		if !ok {
			return meta, "", &FormatError{Path: r.path, Reason: fmt.Sprintf("the run is damaged: meta field %s is missing", f.key), Hint: damagedHint}
		}
		if err := f.read(&meta, s); err != nil {
			return meta, "", &FormatError{Path: r.path, Reason: fmt.Sprintf("the run is damaged: meta field %s: %v", f.key, err), Hint: damagedHint}
		}
	}
	run, ok := stored[keyRun]
	if !ok && r.schema >= 2 {
		return meta, "", &FormatError{Path: r.path, Reason: fmt.Sprintf("the run is damaged: meta field %s is missing", keyRun), Hint: damagedHint}
	}
	return meta, run, nil
}

// SetReferenceClock stores the clock at which times of a device are judged.
func (r *Run) SetReferenceClock(device string, mhz float64) error {
	tried := fmt.Sprintf("set the reference clock of %s", device)
	if !(mhz > 0) || math.IsInf(mhz, 0) {
		return fmt.Errorf("%s: %s: %v MHz, expected a clock above 0", r.path, tried, mhz)
	}
	return r.changeMeta(tried, func(m *Meta) {
		clocks := map[string]float64{device: mhz}
		for d, other := range m.ReferenceClock {
			if d != device {
				clocks[d] = other
			}
		}
		m.ReferenceClock = clocks
	}, referenceClock)
}

// changeMeta changes fields of the run's Meta and stores them.
func (r *Run) changeMeta(tried string, change func(m *Meta), fields ...metaField) error {
	return r.write(tried, func(ctx context.Context, tx *sql.Tx) error {
		r.mu.Lock()
		defer r.mu.Unlock()
		meta := r.meta
		change(&meta)
		put := putMetaIn(ctx, tx)
		for _, f := range fields {
			value, err := f.write(&meta)
			if err != nil {
				return fmt.Errorf("meta field %s: %w", f.key, err)
			}
			if err := put(f.key, value); err != nil {
				return err
			}
		}
		meta.Schema = SchemaVersion
		meta.Created = meta.Created.UTC().Round(0)
		r.meta = meta
		return nil
	})
}
