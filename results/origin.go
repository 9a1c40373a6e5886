package results

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/gemmaudit/gemmaudit/results/direct"
)

// Origin is the origin of samples: one device of one measured run.
type Origin struct {
	ID int64
	// Run is the measuring run's random id in hex. It survives merges.
	Run string
	// Host is the machine's name, empty if the run does not store it.
	Host   string
	Device string
	// Card is the card's UUID or serial number, empty if there is none.
	Card   string
	Labels Labels
}

// Same reports whether two origins differ at most in their ID.
func (o Origin) Same(p Origin) bool {
	return o.Run == p.Run && o.Host == p.Host && o.Device == p.Device && o.Card == p.Card && maps.Equal(o.Labels, p.Labels)
}

func newRunID() string {
	b := make([]byte, 16)
	rand.Read(b) // never fails
	return hex.EncodeToString(b)
}

// runIDOf returns the id of a run of schema 1, which stores none. It is derived from Meta, so every read
// gives the same.
func runIDOf(meta Meta) (string, error) {
	h := sha256.New()
	for _, f := range metaFields {
		if f.since > 1 {
			continue
		}
		value, err := f.write(&meta)
		if err != nil {
			return "", err
		}
		fmt.Fprintf(h, "%s %d\n%s\n", f.key, len(value), value)
	}
	return hex.EncodeToString(h.Sum(nil)[:16]), nil
}

func originsOf(meta Meta, run string) []Origin {
	var out []Origin
	for _, spec := range meta.Fingerprint.Devices {
		out = append(out, originOf(meta, run, spec.ID))
	}
	return numbered(out)
}

// originOf returns the origin of a device's samples that a run measures or was imported with.
func originOf(meta Meta, run, device string) Origin {
	o := Origin{Run: run, Host: meta.Fingerprint.Hostname, Device: device, Labels: meta.Labels}
	for _, spec := range meta.Fingerprint.Devices {
		if spec.ID == device {
			o.Card = spec.UUID
		}
	}
	return o
}

func numbered(origins []Origin) []Origin {
	for i := range origins {
		origins[i].ID = int64(i) + 1
	}
	return origins
}

const insertOrigin = `INSERT INTO origins (id, run, host, device, card, labels) VALUES (?, ?, ?, ?, ?, ?)`

func (o Origin) bind() []any {
	var card any
	if o.Card != "" {
		card = o.Card
	}
	return []any{o.ID, o.Run, o.Host, o.Device, card, EncodeLabels(o.Labels)}
}

// EncodeLabels returns the stored form of labels, a JSON object.
func EncodeLabels(labels Labels) string {
	if len(labels) == 0 {
		return "{}"
	}
	return canonical(labels)
}

// DecodeLabels reverses encodeLabels; empty text is no labels.
func DecodeLabels(s string) (Labels, error) {
	if s == "" || s == "{}" {
		return nil, nil
	}
	labels := Labels{}
	if err := json.Unmarshal([]byte(s), &labels); err != nil {
		return nil, fmt.Errorf("labels %.80q: expected a JSON object of words", s)
	}
	return labels, labels.Check()
}

// Origins returns the origins of the run's samples by ID. A run of schema 1 has one per device.
func (r *Run) Origins() ([]Origin, error) {
	if r.schema < 2 {
		run, err := runIDOf(r.Meta())
		if err != nil {
			return nil, r.damaged("read origins", err)
		}
		out := originsOf(r.Meta(), run)
		err = r.bulk("read origins", func(d *reader) error {
			series, err := d.series()
			for _, k := range series {
				if !slices.ContainsFunc(out, func(o Origin) bool { return o.Device == k.Device }) {
					out = append(out, originOf(r.Meta(), run, k.Device))
				}
			}
			return err
		})
		// Sorted by name, because map order is random.
		slices.SortFunc(out, func(a, b Origin) int { return strings.Compare(a.Device, b.Device) })
		return numbered(out), r.damaged("read origins", err)
	}
	var out []Origin
	err := r.bulk("read origins", func(d *reader) error {
		return d.query(`SELECT id, run, host, device, card, labels FROM origins ORDER BY id`, func(s *direct.Stmt) error {
			o := Origin{ID: s.Int(0), Run: d.word(s, 1), Host: d.word(s, 2), Device: d.word(s, 3)}
			if !s.Null(4) {
				o.Card = d.word(s, 4)
			}
			var err error
			o.Labels, err = DecodeLabels(d.long(s, 5))
			out = append(out, o)
			return errors.Join(s.Err(), err)
		})
	})
	return out, err
}

// originFor returns the origin of new samples on a case's device and stores a new one. ok is false for an
// unknown case.
func (r *Run) originFor(ctx context.Context, caseID int64) (id int64, ok bool, err error) {
	if from, ok := r.origins[caseID]; ok {
		return from.origin, true, nil
	}
	var device string
	err = r.db.QueryRowContext(ctx, `SELECT device FROM series WHERE id = (SELECT series FROM cases WHERE id = ?)`, caseID).Scan(&device)
	if err == sql.ErrNoRows {
		return 0, false, nil
	}
	if err != nil {
		return 0, false, err
	}
	meta := r.Meta()
	if r.here != nil {
		meta.Fingerprint = *r.here
	}
	o := originOf(meta, r.runID, device)
	// A card's UUID identifies it: a container's host name changes with each start.
	err = r.db.QueryRowContext(ctx,
		`SELECT id FROM origins WHERE run = ? AND device = ? AND coalesce(card, '') = ? AND (card IS NOT NULL OR host = ?) ORDER BY id `+
			`LIMIT 1`,
		o.Run, device, o.Card, o.Host).Scan(&id)
	if err == sql.ErrNoRows {
		err = r.db.QueryRowContext(ctx, `SELECT coalesce(max(id), 0) + 1 FROM origins`).Scan(&o.ID)
		if err == nil {
			_, err = r.db.ExecContext(ctx, insertOrigin, o.bind()...)
		}
		id = o.ID
	}
	if err == nil {
		r.origins[caseID] = source{device, id}
	}
	return id, err == nil, err
}

// CaseOrigins returns the origin ID of each case with samples, 0 if they have several. Cases of shards have
// one.
func (r *Run) CaseOrigins() (map[int64]int64, error) {
	out := map[int64]int64{}
	err := r.EachWithOrigin(func(s Sample, origin int64) error {
		if before, known := out[s.CaseID]; known && before != origin {
			origin = 0
		}
		out[s.CaseID] = origin
		return nil
	})
	return out, err
}

// originIndex finds the origin of a sample: by its own ID, or in a run of schema 1 by the device of its case.
type originIndex struct {
	ids    map[int64]bool
	ofCase map[int64]int64 // nil from schema 2 on
}

func (r *Run) indexOrigins() (x originIndex, err error) {
	origins, err := r.Origins()
	if err != nil {
		return x, err
	}
	x.ids = map[int64]bool{}
	byDevice := map[string]int64{}
	for _, o := range origins {
		x.ids[o.ID], byDevice[o.Device] = true, o.ID
	}
	if r.schema >= 2 {
		return x, nil
	}
	x.ofCase = map[int64]int64{}
	cases, err := r.Cases()
	for _, c := range cases {
		x.ofCase[c.ID] = byDevice[c.Device]
	}
	return x, err
}

func (x originIndex) of(caseID, id int64) (int64, bool) {
	if x.ofCase != nil {
		id = x.ofCase[caseID]
	}
	return id, x.ids[id]
}
