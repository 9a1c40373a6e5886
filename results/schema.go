package results

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	"github.com/gemmaudit/gemmaudit/kernels"
)

// SchemaVersion is the version of the run format that this program writes, and
// the newest that it reads. It is stored as the file's user_version.
const SchemaVersion = 1

// applicationID marks an SQLite file as a run of ours: "GmAu", big endian.
const applicationID = 0x476d4175

// ddl lays out an empty run. Text is preferred to codes where it costs little,
// so that a run can be read with any SQLite shell.
//
// A case is a series and an M; the columns of its identity are in the unique
// constraints, so that one case can't be stored twice. A sample's seq is its
// primary key: blocks run one after the other, and the order is the story of
// the run. parts is "192+1988" for a split and empty for a single launch.
const ddl = `
CREATE TABLE meta (
	key   TEXT PRIMARY KEY,
	value TEXT NOT NULL
) WITHOUT ROWID;
CREATE TABLE series (
	id          INTEGER PRIMARY KEY,
	device      TEXT NOT NULL,
	kernel      TEXT NOT NULL,
	dtype       TEXT NOT NULL,
	n           INTEGER NOT NULL,
	k           INTEGER NOT NULL,
	regime      TEXT NOT NULL,
	threads     INTEGER NOT NULL,
	pack_inside INTEGER NOT NULL,
	UNIQUE (device, kernel, dtype, n, k, regime, threads, pack_inside)
);
CREATE TABLE cases (
	id     INTEGER PRIMARY KEY,
	series INTEGER NOT NULL REFERENCES series(id),
	m      INTEGER NOT NULL,
	parts  TEXT NOT NULL,
	pad_to INTEGER NOT NULL,
	label  TEXT NOT NULL,
	UNIQUE (series, m, parts, pad_to)
);
CREATE TABLE samples (
	seq         INTEGER PRIMARY KEY,
	case_id     INTEGER NOT NULL REFERENCES cases(id),
	phase       TEXT NOT NULL,
	round       INTEGER NOT NULL,
	started_us  INTEGER NOT NULL,
	launches    INTEGER NOT NULL,
	us          REAL NOT NULL,
	clock_mhz   REAL NOT NULL,
	power_w     REAL NOT NULL,
	temp_c      REAL NOT NULL,
	throttle    TEXT NOT NULL,
	disturbance TEXT NOT NULL,
	UNIQUE (case_id, phase, round)
);
CREATE TABLE failures (
	case_id INTEGER NOT NULL REFERENCES cases(id),
	phase   TEXT NOT NULL,
	round   INTEGER NOT NULL,
	reason  TEXT NOT NULL,
	PRIMARY KEY (case_id, phase, round)
) WITHOUT ROWID;
CREATE TABLE state (
	key   TEXT PRIMARY KEY,
	value TEXT NOT NULL
) WITHOUT ROWID;
`

// Meta is what is known about a run as a whole.
type Meta struct {
	// Schema is the version of the file; it is [SchemaVersion] for new runs,
	// whatever was asked for.
	Schema    int       `json:"schema"`
	Created   time.Time `json:"created"`
	Command   string    `json:"command"`
	Gemmaudit string    `json:"gemmaudit"` // version of the program that measured
	// Fingerprint is the machine.
	Fingerprint Fingerprint `json:"fingerprint"`
	// Ceilings are the rates of each device, by its id.
	Ceilings map[string]kernels.Ceilings `json:"ceilings,omitempty"`
	// Plan is the sweep's own account of what it set out to do. This package
	// stores it and compares it on a merge, but does not know what is in it.
	Plan         json.RawMessage      `json:"plan,omitempty"`
	Regime       Regime               `json:"regime"`
	Distribution kernels.Distribution `json:"distribution"`
	Seed         uint64               `json:"seed"`
	// ReferenceClock is the clock of each device, in MHz, at which times are judged.
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
}

func jsonField[T any](key string, at func(m *Meta) *T) metaField {
	return metaField{
		key: key,
		write: func(m *Meta) (string, error) {
			b, err := json.Marshal(at(m))
			return string(b), err
		},
		read: func(m *Meta, s string) error { return json.Unmarshal([]byte(s), at(m)) },
	}
}

func textField[T ~string](key string, at func(m *Meta) *T) metaField {
	return metaField{
		key:   key,
		write: func(m *Meta) (string, error) { return string(*at(m)), nil },
		read:  func(m *Meta, s string) error { *at(m) = T(s); return nil },
	}
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
	jsonField("ceilings", func(m *Meta) *map[string]kernels.Ceilings { return &m.Ceilings }),
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
}

// execer is a connection or a transaction.
type execer interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
}

// writeMeta stores every field.
func writeMeta(ctx context.Context, db execer, meta Meta) error {
	for _, f := range metaFields {
		value, err := f.write(&meta)
		if err != nil {
			return fmt.Errorf("meta field %s: %w", f.key, err)
		}
		if _, err := db.ExecContext(ctx, `INSERT OR REPLACE INTO meta (key, value) VALUES (?, ?)`, f.key, value); err != nil {
			return err
		}
	}
	return nil
}

// readMeta is the inverse of writeMeta. A missing or unreadable field is a
// [FormatError].
func readMeta(ctx context.Context, db *sql.DB, path string) (Meta, error) {
	meta := Meta{Schema: SchemaVersion}
	stored := map[string]string{}
	err := query(ctx, db, func(rows *sql.Rows) error {
		var k, v string
		if err := rows.Scan(&k, &v); err != nil {
			return err
		}
		stored[k] = v
		return nil
	}, `SELECT key, value FROM meta`)
	if err != nil {
		return meta, describe(path, "read meta", err)
	}
	for _, f := range metaFields {
		s, ok := stored[f.key]
		if !ok {
			return meta, &FormatError{Path: path, Reason: fmt.Sprintf("the run is damaged: meta field %s is missing", f.key), Hint: damagedHint}
		}
		if err := f.read(&meta, s); err != nil {
			return meta, &FormatError{Path: path, Reason: fmt.Sprintf("the run is damaged: meta field %s: %v", f.key, err), Hint: damagedHint}
		}
	}
	return meta, nil
}
