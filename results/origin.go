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

// Origin is where samples come from: one device of one measured run.
type Origin struct {
	ID int64
	// Run is the random id of the run that measured, in hex. It outlives merges.
	Run string
	// Host is the machine's name, empty when the run doesn't store it.
	Host   string
	Device string
	// Card is the UUID or serial number of the card, empty when there is none.
	Card   string
	Labels Labels
}

// same says whether two origins are one, whatever their IDs.
func (o Origin) same(p Origin) bool {
	return o.Run == p.Run && o.Host == p.Host && o.Device == p.Device && o.Card == p.Card && maps.Equal(o.Labels, p.Labels)
}

// newRunID is the id of a run that begins.
func newRunID() string {
	b := make([]byte, 16)
	rand.Read(b) // never fails
	return hex.EncodeToString(b)
}

// runIDOf is the id of a run of schema 1, which stores none. It follows from what
// the run says of itself, so that every reading of the file yields the same.
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

// originsOf are the origins of a run that begins: one per device of its machine.
func originsOf(meta Meta, run string) []Origin {
	var out []Origin
	for _, spec := range meta.Fingerprint.Devices {
		out = append(out, originOf(meta, run, spec.ID))
	}
	return numbered(out)
}

// originOf is where samples of a device come from that a run measures, or that it
// was imported with.
func originOf(meta Meta, run, device string) Origin {
	o := Origin{Run: run, Host: meta.Fingerprint.Hostname, Device: device, Labels: meta.Labels}
	for _, spec := range meta.Fingerprint.Devices {
		if spec.ID == device {
			o.Card = spec.UUID
		}
	}
	return o
}

// numbered gives origins IDs from 1.
func numbered(origins []Origin) []Origin {
	for i := range origins {
		origins[i].ID = int64(i) + 1
	}
	return origins
}

const insertOrigin = `INSERT INTO origins (id, run, host, device, card, labels) VALUES (?, ?, ?, ?, ?, ?)`

// bind lists the values of insertOrigin.
func (o Origin) bind() []any {
	var card any
	if o.Card != "" {
		card = o.Card
	}
	return []any{o.ID, o.Run, o.Host, o.Device, card, encodeLabels(o.Labels)}
}

// encodeLabels prints labels as they are stored.
func encodeLabels(labels Labels) string {
	if len(labels) == 0 {
		return "{}"
	}
	return canonical(labels)
}

// decodeLabels is the inverse of encodeLabels; empty text is no labels.
func decodeLabels(s string) (Labels, error) {
	if s == "" || s == "{}" {
		return nil, nil
	}
	labels := Labels{}
	if err := json.Unmarshal([]byte(s), &labels); err != nil {
		return nil, fmt.Errorf("labels %.80q: expected a JSON object of words", s)
	}
	return labels, labels.Check()
}

// Origins returns where the run's samples come from, by ID. A run of schema 1 has
// one origin per device.
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
		// By name, for the series have no order.
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
			o.Labels, err = decodeLabels(d.long(s, 5))
			out = append(out, o)
			return errors.Join(s.Err(), err)
		})
	})
	return out, err
}

// originIndex finds the origin of a sample: by the ID that the sample holds, or, in a
// run of schema 1, by its device.
type originIndex struct {
	byID     map[int64]int64
	byDevice map[string]int64 // nil from schema 2 on
}

func indexOrigins(schema int, origins []Origin) originIndex {
	x := originIndex{byID: map[int64]int64{}}
	if schema < 2 {
		x.byDevice = map[string]int64{}
	}
	for _, o := range origins {
		x.rename(o, o.ID)
	}
	return x
}

// rename has an origin be found by another ID than its own.
func (x originIndex) rename(o Origin, id int64) {
	x.byID[o.ID] = id
	if x.byDevice != nil {
		x.byDevice[o.Device] = id
	}
}

// of is the origin of a sample that was taken on a device and holds an ID.
func (x originIndex) of(device string, id int64) (int64, bool) {
	if x.byDevice != nil {
		found, ok := x.byDevice[device]
		return found, ok
	}
	found, ok := x.byID[id]
	return found, ok
}

// originFor returns the origin of what the run measures now on the device of a
// case; it is stored when it is new. ok is false when there is no such case.
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
	// A card is the same one wherever it is: a container's host has another name at each start.
	err = r.db.QueryRowContext(ctx, `SELECT id FROM origins WHERE run = ? AND device = ? AND coalesce(card, '') = ? AND (card IS NOT NULL OR host = ?) ORDER BY id LIMIT 1`,
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

// CaseOrigins returns, for each case with samples, the ID of their origin; 0 where they have several, which cases of shards have
// not.
func (r *Run) CaseOrigins() (map[int64]int64, error) {
	origins, err := r.Origins()
	if err != nil {
		return nil, err
	}
	index := indexOrigins(r.schema, origins)
	devices := map[int64]string{}
	if r.schema < 2 {
		cases, err := r.Cases()
		if err != nil {
			return nil, err
		}
		for _, c := range cases {
			devices[c.ID] = c.Device
		}
	}
	out := map[int64]int64{}
	err = r.eachSample("", func(s Sample, origin int64) error {
		from, ok := index.of(devices[s.CaseID], origin)
		if !ok {
			return fmt.Errorf("%v: there is no origin %d", s, origin)
		}
		if before, known := out[s.CaseID]; known && before != from {
			from = 0
		}
		out[s.CaseID] = from
		return nil
	})
	return out, err
}
