package results

import (
	"context"
	"database/sql"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// declarations are the texts by which tables are made, by the table's name, each as one line.
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

// The tables that a file of each version has, and those that it may have.
var (
	tablesOf = map[int]map[string]string{1: declarations(ddlOfBoth + ddlOfVersion1), 2: declarations(ddlOfBoth + ddlOfSamples)}
	mayHave  = map[int]map[string]string{2: declarations(ddlOfChoices)}
)

// checkTables compares what the database holds with what a run of its version has: its tables,
// declared word by word as we declare them. A file comes from anywhere, and what else can stand
// in a database is not data: a trigger changes what is written, a view or a generated column
// computes what is read, without bound.
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
			return nil // the database's own, of a constraint that the table declares
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
		return &FormatError{Path: path, Reason: fmt.Sprintf("the run is damaged: table %s is missing", first), Hint: damagedHint}
	}
	return nil
}

// firstDifference shows a declaration from the word on in which it differs from another.
func firstDifference(got, want string) string {
	g, w := strings.Fields(got), strings.Fields(want)
	for len(g) > 0 && len(w) > 0 && g[0] == w[0] {
		g, w = g[1:], w[1:]
	}
	return fmt.Sprintf("%.80q where %.80q stands", strings.Join(g, " "), strings.Join(w, " "))
}
