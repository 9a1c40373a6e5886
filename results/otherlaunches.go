package results

import (
	"context"
	"database/sql"
	"fmt"
	"strings"

	"github.com/gemmaudit/gemmaudit/results/direct"
)

// OtherLaunch is a launch of a case that differs from the case's first one: a kernel in another process chose
// anew in a later round, after a restart of its process, or at a confirmation.
type OtherLaunch struct {
	CaseID int64  `json:"case"`
	Label  string `json:"label"`
	// Launch has a tile and a split, if known.
	Launch Launch `json:"launch,omitzero"`
	// Phase and Round are of the first sample with it.
	Phase Phase `json:"phase"`
	Round int   `json:"round"`
}

// SameLaunch reports whether two launches of a case run the same kernel, tile and split.
func SameLaunch(label string, l Launch, otherLabel string, other Launch) bool {
	return label == otherLabel && l.Tile == other.Tile && l.Split == other.Split
}

// Check names an invalid value, or returns nil.
func (o *OtherLaunch) Check() error {
	switch {
	case len(o.Label) > MaxText || len(o.Phase) > MaxText:
		return fmt.Errorf("case %d: a launch with a text of more than %d bytes", o.CaseID, MaxText)
	case o.Phase == "" || o.Round < 0 || o.Round > MaxDimension:
		return fmt.Errorf("case %d: a launch of phase %q, round %d", o.CaseID, o.Phase, o.Round)
	}
	if err := o.Launch.Validate(); err != nil {
		return fmt.Errorf("case %d: %w", o.CaseID, err)
	}
	return nil
}

const (
	otherColumns     = `case_id, label, tile_m, tile_n, tile_k, split, phase, round`
	insertOtherFirst = `INSERT OR IGNORE INTO other_launches (` + otherColumns + `) VALUES (?, ?, ?, ?, ?, ?, ?, ?)`
)

func (o *OtherLaunch) bind() []any {
	t := o.Launch.Tile
	return []any{o.CaseID, o.Label, t[0], t[1], t[2], o.Launch.Split, string(o.Phase), o.Round}
}

// AddLaunch stores a further launch of a case. One that is stored is kept.
func (r *Run) AddLaunch(o OtherLaunch) error {
	return r.write("add launch", func(ctx context.Context, tx *sql.Tx) error {
		if err := o.Check(); err != nil {
			return err
		}
		if _, err := tx.ExecContext(ctx, ddlOfOtherLaunches); err != nil {
			return err
		}
		_, err := tx.ExecContext(ctx, insertOtherFirst, o.bind()...)
		return constraint(o.CaseID, err)
	})
}

// OtherLaunches returns the further launches of all cases, by case.
func (r *Run) OtherLaunches() ([]OtherLaunch, error) {
	var out []OtherLaunch
	err := r.bulk("read launches", func(d *reader) error {
		if there, err := d.hasTable("other_launches"); err != nil || !there {
			return err
		}
		return d.query(`SELECT `+otherColumns+` FROM other_launches ORDER BY case_id, phase, round, label`, func(s *direct.Stmt) error {
			o := OtherLaunch{CaseID: s.Int(0), Label: d.word(s, 1), Phase: Phase(d.word(s, 6)), Round: int(s.Int(7))}
			o.Launch.Tile, o.Launch.Split = [3]int{int(s.Int(2)), int(s.Int(3)), int(s.Int(4))}, int(s.Int(5))
			if err := s.Err(); err != nil {
				return err
			}
			out = append(out, o)
			return o.Check()
		})
	})
	return out, err
}

// OtherLaunches stores further launches of cases.
func (w *Writer) OtherLaunches(all []OtherLaunch) error {
	if len(all) == 0 {
		return nil
	}
	if err := w.db.Exec(oneStatement(ddlOfOtherLaunches)); err != nil {
		return err
	}
	for i := range all {
		if err := w.once(insertOtherFirst, all[i].bind()...); err != nil {
			return err
		}
	}
	return nil
}

func oneStatement(ddl string) string { return strings.TrimSuffix(strings.TrimSpace(ddl), ";") }
