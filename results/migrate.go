package results

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
)

// migrate upgrades a run of schema 1 to the current version in one transaction, so a killed process leaves
// one of the two versions. The caller holds the run's lock.
//
// Changed tables are created next to the old ones and renamed. References are not enforced, since they would
// dangle meanwhile.
func migrate(path string) error {
	// A legacy rename leaves references to the table unchanged.
	db, err := openDB(path, "mode=rw", "busy_timeout(2000)", "trusted_schema(0)", "legacy_alter_table(1)")
	if err != nil {
		return err
	}
	defer db.Close()
	ctx := context.Background()
	schema, err := readSchema(ctx, db, path)
	if err != nil || schema >= SchemaVersion {
		return err
	}
	old := &Run{path: path, file: path, mode: "mode=ro", schema: schema, db: db}
	if old.meta, _, err = old.readMeta(); err != nil {
		return err
	}
	origins, series, err := old.movable()
	if err != nil {
		return err
	}
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return describe(path, "migrate", err)
	}
	defer tx.Rollback()
	if err := moveTables(ctx, tx, old.meta, series, origins); err != nil {
		return describe(path, fmt.Sprintf("migrate from schema version %d", schema), err)
	}
	return describe(path, "migrate", tx.Commit())
}

func (r *Run) movable() ([]Origin, map[int64]SeriesKey, error) {
	origins, err := r.Origins()
	if err != nil {
		return nil, nil, err
	}
	var series map[int64]SeriesKey
	err = r.bulk("read cases", func(d *reader) error {
		series, err = d.series()
		return err
	})
	return origins, series, err
}

func moveTables(ctx context.Context, tx *sql.Tx, meta Meta, series map[int64]SeriesKey, origins []Origin) error {
	exec := func(q string, args ...any) error {
		_, err := tx.ExecContext(ctx, q, args...)
		return err
	}
	for _, table := range []string{"samples", "cases", "series"} {
		if err := exec(fmt.Sprintf(`ALTER TABLE %s RENAME TO %s_1`, table, table)); err != nil {
			return err
		}
	}
	if err := exec(ddlOfSamples + ddlOfChoices); err != nil {
		return err
	}
	for _, o := range origins {
		if err := exec(insertOrigin, o.bind()...); err != nil {
			return err
		}
	}
	ids := make([]int64, 0, len(series))
	for id := range series {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	for _, id := range ids {
		values, err := bindSeries(id, series[id])
		if err != nil {
			return err
		}
		if err := exec(insertSeries, values...); err != nil {
			return err
		}
	}
	for _, q := range []string{
		`INSERT INTO cases (` + caseColumns + `) SELECT ` + caseColumns + ` FROM cases_1`,
		`INSERT INTO samples (` + keyColumns + `, ` + figureColumns + `, origin)
		SELECT ` + keyColumns + `, ` + figureColumns + `,
			(SELECT o.id FROM cases c, series s, origins o WHERE c.id = x.case_id AND s.id = c.series AND o.device = s.device)
		FROM samples_1 x ORDER BY seq`,
		`DROP TABLE samples_1`, `DROP TABLE cases_1`, `DROP TABLE series_1`,
		fmt.Sprintf(`PRAGMA user_version=%d`, SchemaVersion),
	} {
		if err := exec(q); err != nil {
			return err
		}
	}
	put := putMetaIn(ctx, tx)
	clock, err := referenceClock.write(&meta)
	if err == nil {
		err = put(referenceClock.key, clock)
	}
	if err != nil {
		return err
	}
	run, err := runIDOf(meta)
	if err != nil {
		return err
	}
	return put(keyRun, run)
}
