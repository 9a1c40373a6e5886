package results

import (
	"context"
	"database/sql"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// declarations returns the statements that create tables, by name, each on one line.
func declarations(ddl string) map[string]string {
	out := map[string]string{}
	for statement := range strings.SplitSeq(ddl, ";") {
		text := oneSpace(strings.Replace(statement, "IF NOT EXISTS ", "", 1))
		if text == "" {
			continue
		}
		name, _, _ := strings.Cut(strings.TrimPrefix(text, "CREATE TABLE "), " ")
		out[name] = text
	}
	return out
}

func oneSpace(s string) string { return strings.Join(strings.Fields(s), " ") }

// The tables that a file of each version must or may have.
var (
	tablesOf = map[int]map[string]string{1: declarations(ddlOfBoth + ddlOfVersion1), 2: declarations(ddlOfBoth + ddlOfSamples)}
	mayHave  = map[int]map[string]string{2: declarations(ddlOfChoices + ddlOfHostTimes + ddlOfOtherLaunches)}
)

// checkTables compares the database's tables with its version's, word by word. Files are untrusted, and other
// objects are not data: a trigger changes writes, and a view or generated column runs unbounded computations.
func checkTables(ctx context.Context, db *sql.DB, path string, schema int) error {
	missing := maps.Clone(tablesOf[schema])
	optional := maps.Clone(mayHave[schema])
	err := query(ctx, db, func(rows *sql.Rows) error {
		var kind, name string
		var text sql.NullString
		if err := rows.Scan(&kind, &name, &text); err != nil {
			return err
		}
		refuse := func(format string, args ...any) error {
			return &FormatError{Path: path, Reason: fmt.Sprintf(format, args...), Hint: foreignHint}
		}
		if kind == "index" && !text.Valid {
			return nil // the database's index for a declared constraint
		}
		if kind != "table" {
			return refuse("the database has the %s %.80q, which no run has", kind, name)
		}
		want, ours := missing[name]
		if !ours {
			want, ours = optional[name]
		}
		if !ours {
			return refuse("the database has the table %.80q, which no run of schema version %d has", name, schema)
		}
		if got := oneSpace(text.String); got != want {
			return refuse("table %s is declared otherwise than a run's: %s", name, firstDifference(got, want))
		}
		delete(missing, name)
		delete(optional, name)
		return nil
	}, `SELECT type, name, sql FROM sqlite_schema`)
	if err != nil {
		return describe(path, "open", err)
	}
	if len(missing) > 0 {
		first := slices.Sorted(maps.Keys(missing))[0]
		return &FormatError{Path: path, Reason: fmt.Sprintf("the run is damaged: table %s is missing", first), Hint: DamagedHint}
	}
	return nil
}

func firstDifference(got, want string) string {
	g, w := strings.Fields(got), strings.Fields(want)
	for len(g) > 0 && len(w) > 0 && g[0] == w[0] {
		g, w = g[1:], w[1:]
	}
	return fmt.Sprintf("%.80q where %.80q stands", strings.Join(g, " "), strings.Join(w, " "))
}
