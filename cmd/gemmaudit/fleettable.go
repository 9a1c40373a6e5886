package main

import (
	"context"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"

	"github.com/gemmaudit/gemmaudit/results"
	runs "github.com/gemmaudit/gemmaudit/results/fleet"
	"github.com/gemmaudit/gemmaudit/results/table"
	"github.com/gemmaudit/gemmaudit/rules"
	"github.com/gemmaudit/gemmaudit/rules/fleet"
	"github.com/gemmaudit/gemmaudit/rules/remedy"
	"github.com/gemmaudit/gemmaudit/rules/verdict"
)

// writeTables writes the remedies that pay on every card of the runs, and lists in r those that pay on some.
// empty is the reason if there is no remedy to write.
func (o *fleetOptions) writeTables(ctx context.Context, files []string, r *fleet.Result) (empty, err error) {
	a := o.app
	var tables []table.CardTable
	for _, path := range files {
		if ctx.Err() != nil {
			return nil, interruptedf("stopped while tables were read; no table is written")
		}
		if strings.EqualFold(filepath.Ext(path), runs.Parquet) ||
			slices.ContainsFunc(r.Unread, func(u fleet.Unread) bool { return u.Path == path }) {
			continue
		}
		found, err := cardTables(path)
		if err != nil {
			r.Warnings = append(r.Warnings, rules.Warning{Subject: path, Text: fmt.Sprintf("its remedies can't be used: %v", err)})
			continue
		}
		tables = append(tables, found...)
	}
	shared := table.Share(tables)
	r.Remedies = shared.Entries
	if n := len(shared.Left); n > 0 {
		r.Warnings = append(r.Warnings, rules.Warning{Subject: "table",
			Text: fmt.Sprintf("%s with another device, driver, library or regime than most are not included: %s",
				plural(n, "card", "cards"), strings.Join(shared.Left[:min(n, 4)], ", "))})
	}
	if shared.Table == nil {
		return hint(inconclusivef("no run has executed remedies, and no table is written"),
			"use `gemmaudit splits RUN --execute` on each node, or `gemmaudit run`"), nil
	}
	if !slices.ContainsFunc(shared.Table.Series, func(s table.Series) bool { return len(s.Intervals) > 0 }) {
		return inconclusivef("no remedy pays on every card, and no table is written: %s on some",
			plural(len(shared.Entries), "pays", "pay")), nil
	}
	if err := shared.Table.Validate(); err != nil {
		return nil, fmt.Errorf("the table of all cards: %w", err)
	}
	for _, path := range o.tables {
		if err := a.writeFile(path, o.force, func(w io.Writer) error { return a.encodeTable(w, shared.Table, path) }); err != nil {
			return nil, err
		}
		a.notef("table: %s", path)
	}
	return nil, nil
}

// cardTables returns a run's remedy tables, one per card, if any.
func cardTables(path string) (out []table.CardTable, failed error) {
	run, err := results.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { closeRun(run, &failed) }()
	found, err := verdict.Kept[remedy.Executed](run, verdict.StateSplits)
	if err != nil || found == nil || found.Result == nil {
		return nil, err
	}
	origins, err := run.Origins()
	if err != nil {
		return nil, err
	}
	for _, device := range found.Result.Devices() {
		t, err := remedy.BuildTable(run.Meta(), found.Result.On(device))
		if err != nil {
			return nil, err
		}
		card := run.Meta().Fingerprint.Hostname + "/" + device
		for _, o := range origins {
			if o.Device == device && o.Card != "" {
				card = o.Card
			}
		}
		out = append(out, table.CardTable{Card: card, Table: t})
	}
	return out, nil
}
