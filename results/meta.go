package results

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/gemmaudit/gemmaudit/kernels"
)

// Meta describes a run as a whole.
type Meta struct {
	// Schema is the file's version, always [SchemaVersion] for new runs and runs open for appending.
	Schema      int         `json:"schema"`
	Created     time.Time   `json:"created"`
	Command     string      `json:"command"`
	Gemmaudit   string      `json:"gemmaudit"` // version of the measuring program
	Fingerprint Fingerprint `json:"fingerprint"`
	// Labels are the user's names for the machine.
	Labels Labels `json:"labels,omitempty"`
	// Ceilings are each device's rates by id.
	Ceilings map[string]kernels.Ceilings `json:"ceilings,omitempty"`
	// Plan is the sweep's plan. This package stores it, compares it in a merge, and interprets only its
	// series: see [Meta.Series].
	Plan         json.RawMessage      `json:"plan,omitempty"`
	Regime       Regime               `json:"regime"`
	Distribution kernels.Distribution `json:"distribution"`
	Seed         uint64               `json:"seed"`
	// ReferenceClock is the clock in MHz for verdicts by device id; devices with unknown clocks are missing.
	ReferenceClock map[string]float64 `json:"reference_clock,omitempty"`
	// Source is the imported files; empty for a measured run.
	Source string `json:"source,omitempty"`
}

// metaField is a field of Meta in its own row, for inspection with any SQLite shell.
type metaField struct {
	key   string
	write func(m *Meta) (string, error)
	read  func(m *Meta, s string) error
	since int // schema version that added it, 0 for the first
	// optional means that runs of any version may lack it.
	optional bool
}

func jsonField[T any](key string, at func(m *Meta) *T) metaField {
	return metaField{
		key: key,
		write: func(m *Meta) (string, error) {
			b, err := json.Marshal(at(m))
			return string(b), err
		},
		read: func(m *Meta, s string) error { return DecodeJSON(s, at(m)) },
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
	keyRun            = "run" // the run's id, not a field of Meta
)

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
		if err := DecodeJSON(s, &clocks); err != nil {
			return err
		}
		for device, mhz := range clocks {
			if !(mhz > 0 && mhz <= MostFigure) {
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
			if err := DecodeJSON(s, &m.Ceilings); err != nil {
				return err
			}
			for device, c := range m.Ceilings {
				if err := CheckCeilings(c); err != nil {
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
			return m.registerRoutings()
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
		write: func(m *Meta) (string, error) { return EncodeLabels(m.Labels), m.Labels.Check() },
		read: func(m *Meta, s string) (err error) {
			m.Labels, err = DecodeLabels(s)
			return err
		},
		since:    2,
		optional: true,
	},
}

const putMeta = `INSERT OR REPLACE INTO meta (key, value) VALUES (?, ?)`

// WriteMeta passes each field of meta to put, as stored.
func WriteMeta(meta Meta, put func(key, value string) error) error {
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

// ReadMetaFields reverses writeMeta for the fields that lookup has. The error names a field as lookup knows it.
func ReadMetaFields(lookup func(key string) (value string, ok bool)) (Meta, error) {
	meta := Meta{Schema: SchemaVersion}
	for _, f := range metaFields {
		if s, ok := lookup(f.key); ok {
			if err := f.read(&meta, s); err != nil {
				return Meta{}, fmt.Errorf("%s: %w", f.key, err)
			}
		}
	}
	return meta, nil
}

func putMetaIn(ctx context.Context, tx *sql.Tx) func(key, value string) error {
	return func(key, value string) error {
		_, err := tx.ExecContext(ctx, putMeta, key, value)
		return err
	}
}

// readMeta reverses writeMeta for the run's schema version; run is the run's id, empty for version 1. A
// missing or unreadable field is a [FormatError].
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
			return meta, "",
				&FormatError{Path: r.path, Reason: fmt.Sprintf("the run is damaged: meta field %s is missing", f.key), Hint: DamagedHint}
		}
		if err := f.read(&meta, s); err != nil {
			return meta, "",
				&FormatError{Path: r.path, Reason: fmt.Sprintf("the run is damaged: meta field %s: %v", f.key, err), Hint: DamagedHint}
		}
	}
	run, ok := stored[keyRun]
	if !ok && r.schema >= 2 {
		return meta, "",
			&FormatError{Path: r.path, Reason: fmt.Sprintf("the run is damaged: meta field %s is missing", keyRun), Hint: DamagedHint}
	}
	return meta, run, nil
}

// SetReferenceClock stores the clock for verdicts on a device.
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
