package results

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"sort"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/results/direct"
)

// LaunchKind is the common properties of a stretch's launches. Unknown fields are zero.
type LaunchKind struct {
	// Label names the kernel or algorithm, like [Case].Label.
	Label string `json:"label"`
	// Tile is the part of C that one block computes, M by N, and the K step.
	Tile [3]int `json:"tile,omitzero"`
	// Stages is the number of K steps in flight.
	Stages int `json:"stages,omitempty"`
	// Split is the number of K parts summed afterwards, 1 for none.
	Split int `json:"split,omitempty"`
	// Cluster is the cluster shape in blocks.
	Cluster [3]int `json:"cluster,omitzero"`
	// Orientation is as in [kernels.Tiling].
	Orientation string `json:"orientation,omitempty"`
	// Slots is the number of tiles that run at once: waves = tiles ÷ Slots.
	Slots float64 `json:"slots,omitempty"`
}

// slotsDigits is the resolution of slots, which are integers except for batches.
const slotsDigits = 1e3

// KindOf returns the kind of a choice for a product of m by n. Unknown slots follow from the waves.
func KindOf(c kernels.Choice, m, n int) LaunchKind {
	label, told := c.Label, kernels.Tiling{}
	if label != "" {
		label, told = kernels.ReadLabel(label)
	}
	t := c.Tiling.Or(told)
	k := LaunchKind{Label: label, Tile: t.Tile, Stages: c.Stages, Split: t.Split, Cluster: c.Cluster, Orientation: t.Orientation}
	if k.Slots = c.Slots; k.Slots > 0 {
		return k
	}
	if tiles := k.Tiles(m, n); tiles > 0 && t.Waves > 0 {
		k.Slots = math.Round(float64(tiles)/t.Waves*slotsDigits) / slotsDigits
	}
	return k
}

// Tiles returns the number of tiles of an m by n output, times the K split; 0 if the tile is unknown.
func (k LaunchKind) Tiles(m, n int) int {
	if k.Tile[0] < 1 || k.Tile[1] < 1 {
		return 0
	}
	return divideUp(m, k.Tile[0]) * divideUp(n, k.Tile[1]) * max(1, k.Split)
}

func divideUp(a, b int) int { return (a + b - 1) / b }

// Waves returns the number of waves for m by n; 0 if unknown.
func (k LaunchKind) Waves(m, n int) float64 {
	if k.Slots <= 0 {
		return 0
	}
	return float64(k.Tiles(m, n)) / k.Slots
}

// Runs reports whether a timed launch is of this kind: label, tile and split must agree where known. The tile
// may be swapped if the launch's orientation is unknown.
func (k LaunchKind) Runs(label string, launch Launch) bool {
	tile := launch.Tile
	if turned := [3]int{tile[1], tile[0], tile[2]}; launch.Orientation == kernels.OrientationUnknown && turned == k.Tile {
		tile = turned
	}
	return (k.Label == "" || label == "" || k.Label == label) &&
		(k.Tile == [3]int{} || tile == [3]int{} || k.Tile == tile) &&
		(k.Split == 0 || launch.Split == 0 || k.Split == launch.Split)
}

// Stretch is a range of queried Ms, From to To inclusive, with one kind.
type Stretch struct {
	From int        `json:"from"`
	To   int        `json:"to"`
	Kind LaunchKind `json:"kind"`
}

// Choices are a series' stretches in ascending M. They are valid only for queried Ms.
type Choices []Stretch

// At returns the kind for a queried M; ok is false if there is none.
func (c Choices) At(m int) (kind LaunchKind, ok bool) {
	i := sort.Search(len(c), func(i int) bool { return c[i].To >= m })
	if i == len(c) || c[i].From > m {
		return LaunchKind{}, false
	}
	return c[i].Kind, true
}

// Add appends the kind of the next larger queried M. joined means that the previous M has a kind, so an equal
// kind extends its stretch.
func (c Choices) Add(m int, kind LaunchKind, joined bool) Choices {
	if n := len(c); n > 0 && joined && c[n-1].Kind == kind {
		c[n-1].To = m
		return c
	}
	return append(c, Stretch{From: m, To: m, Kind: kind})
}

// Validate returns an error that names the first invalid stretch.
func (c Choices) Validate() error {
	last := 0
	for _, s := range c {
		if s.From <= last || s.To < s.From || s.To > MaxDimension {
			return fmt.Errorf("the stretch of m%d to m%d comes after m%d", s.From, s.To, last)
		}
		last = s.To
		if err := s.Kind.validate(); err != nil {
			return fmt.Errorf("the stretch of m%d to m%d: %w", s.From, s.To, err)
		}
	}
	return nil
}

func (k LaunchKind) validate() error {
	if err := (kernels.Tiling{Tile: k.Tile, Split: k.Split}).Validate(); err != nil {
		return err
	}
	if !(k.Slots >= 0) || math.IsInf(k.Slots, 0) {
		return fmt.Errorf("slots is %v", k.Slots)
	}
	for i, n := range append([]int{k.Stages}, k.Cluster[:]...) {
		if n < 0 || n > MaxDimension {
			return fmt.Errorf("%s is %d", []string{"stages", "cluster_x", "cluster_y", "cluster_z"}[i], n)
		}
	}
	return nil
}

const (
	kindColumns = `label, tile_m, tile_n, tile_k, stages, split, cluster_x, cluster_y, cluster_z, orientation, slots`
	insertKind  = `INSERT INTO launch_kinds (id, ` + kindColumns + `) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`

	insertChoice = `INSERT INTO choices (series, from_m, to_m, kind) VALUES (?, ?, ?, ?)`
)

func (k LaunchKind) bind(id int64) []any {
	return []any{id, k.Label, k.Tile[0], k.Tile[1], k.Tile[2], k.Stages, k.Split,
		k.Cluster[0], k.Cluster[1], k.Cluster[2], k.Orientation, k.Slots}
}

// SetChoices replaces the stored choices of a series; none removes them.
func (r *Run) SetChoices(key SeriesKey, c Choices) error {
	if err := c.Validate(); err != nil {
		return fmt.Errorf("%s: set choices of %v: %w", r.path, key, err)
	}
	values, err := bindSeries(0, key)
	if err != nil {
		return fmt.Errorf("%s: set choices: %w", r.path, err)
	}
	return r.write("set choices", func(ctx context.Context, tx *sql.Tx) error {
		if _, err := tx.ExecContext(ctx, ddlOfChoices); err != nil {
			return err
		}
		series, err := seriesIn(ctx, tx, values)
		if err == nil {
			_, err = tx.ExecContext(ctx, `DELETE FROM choices WHERE series = ?`, series)
		}
		if err != nil {
			return err
		}
		insert, err := tx.PrepareContext(ctx, insertChoice)
		if err != nil {
			return err
		}
		defer insert.Close()
		kinds := map[LaunchKind]int64{}
		for _, s := range c {
			id, ok := kinds[s.Kind]
			if !ok {
				if id, err = kindIn(ctx, tx, s.Kind); err != nil {
					return err
				}
				kinds[s.Kind] = id
			}
			if _, err := insert.ExecContext(ctx, series, s.From, s.To, id); err != nil {
				return err
			}
		}
		return nil
	})
}

// seriesIn returns the id of a series by the values of insertSeries and stores a new series.
func seriesIn(ctx context.Context, tx *sql.Tx, values []any) (id int64, err error) {
	err = tx.QueryRowContext(ctx, `SELECT id FROM series WHERE operation = ? AND device = ? AND kernel = ? AND dims = ?
		AND operands = ? AND layout = ? AND regime = ? AND threads = ? AND pack_inside = ?`, values[1:]...).Scan(&id)
	if !errors.Is(err, sql.ErrNoRows) {
		return id, err
	}
	if err := tx.QueryRowContext(ctx, `SELECT coalesce(max(id), 0) + 1 FROM series`).Scan(&id); err != nil {
		return 0, err
	}
	values = slices.Clone(values)
	values[0] = id
	_, err = tx.ExecContext(ctx, insertSeries, values...)
	return id, err
}

func kindIn(ctx context.Context, tx *sql.Tx, k LaunchKind) (id int64, err error) {
	err = tx.QueryRowContext(ctx, `SELECT id FROM launch_kinds WHERE (`+kindColumns+`) = (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
		k.bind(0)[1:]...).Scan(&id)
	if !errors.Is(err, sql.ErrNoRows) {
		return id, err
	}
	if err := tx.QueryRowContext(ctx, `SELECT coalesce(max(id), 0) + 1 FROM launch_kinds`).Scan(&id); err != nil {
		return 0, err
	}
	_, err = tx.ExecContext(ctx, insertKind, k.bind(id)...)
	return id, err
}

// Choices returns the choices of each series; may be empty.
func (r *Run) Choices() (map[SeriesKey]Choices, error) {
	var out map[SeriesKey]Choices
	err := r.bulk("read choices", func(d *reader) (err error) {
		out, err = d.choices()
		return err
	})
	return out, err
}

func (d *reader) choices() (map[SeriesKey]Choices, error) {
	there := 0
	err := d.query(`SELECT count(*) FROM sqlite_schema WHERE type = 'table' AND name IN ('choices', 'launch_kinds')`,
		func(s *direct.Stmt) error {
			there = int(s.Int(0))
			return s.Err()
		})
	if err != nil || there < 2 {
		return nil, err
	}
	kinds, err := d.kinds()
	if err != nil {
		return nil, err
	}
	byID := map[int64]Choices{}
	err = d.query(`SELECT series, from_m, to_m, kind FROM choices ORDER BY series, from_m`, func(s *direct.Stmt) error {
		series := s.Int(0)
		kind, ok := kinds[s.Int(3)]
		if !ok {
			return fmt.Errorf("series %d: unknown choice kind %d", series, s.Int(3))
		}
		byID[series] = append(byID[series], Stretch{From: int(s.Int(1)), To: int(s.Int(2)), Kind: kind})
		return s.Err()
	})
	if err != nil || len(byID) == 0 {
		return nil, err
	}
	keys, err := d.series()
	if err != nil {
		return nil, err
	}
	out := make(map[SeriesKey]Choices, len(byID))
	for id, c := range byID {
		key, ok := keys[id]
		if !ok {
			return nil, fmt.Errorf("there are choices of series %d, which is not there", id)
		}
		if err := c.Validate(); err != nil {
			return nil, fmt.Errorf("choices of series %v: %w", key, err)
		}
		out[key] = c
	}
	return out, nil
}

func (d *reader) kinds() (map[int64]LaunchKind, error) {
	out := map[int64]LaunchKind{}
	err := d.query(`SELECT id, `+kindColumns+` FROM launch_kinds`, func(s *direct.Stmt) error {
		out[s.Int(0)] = LaunchKind{
			Label: d.word(s, 1), Tile: [3]int{int(s.Int(2)), int(s.Int(3)), int(s.Int(4))},
			Stages: int(s.Int(5)), Split: int(s.Int(6)), Cluster: [3]int{int(s.Int(7)), int(s.Int(8)), int(s.Int(9))},
			Orientation: d.word(s, 10), Slots: s.Float(11),
		}
		return s.Err()
	})
	return out, err
}

// ChosenSeries lists the series of choices in printing order.
func ChosenSeries(choices map[SeriesKey]Choices) []SeriesKey {
	return slices.SortedFunc(maps.Keys(choices), SeriesKey.Compare)
}
