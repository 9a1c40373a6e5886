// Package fleet reads runs of many machines: run files and Parquet exports. Each run is read whole and then
// released, so any number can be read in sequence.
package fleet

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/gemmaudit/gemmaudit/results"
	"github.com/gemmaudit/gemmaudit/results/parquetfile"
)

// Run is one run on one machine.
type Run struct {
	Path string
	// ID is the run's random id; a merged shard keeps its own.
	ID   string
	Host string
	// Labels are the user's names for the machine.
	Labels map[string]string
	// Cards are the cards' UUIDs or serial numbers by device id, where known.
	Cards map[string]string
	Meta  results.Meta
	// Series, Sentinels and Sustained are as rules read them.
	Series    []results.Series
	Sentinels []results.Sample
	Sustained []results.Row
	// Warnings are problems of a readable run.
	Warnings []string
	// LeftOut counts cases in none of the file's runs, because several machines measured each. It is set on
	// the first run.
	LeftOut int
}

// The file extensions searched in folders.
const (
	RunFile = ".db"
	Parquet = ".parquet"
)

// Read passes each run of a file to each: one, or several in a merged file. Files named *.parquet are
// Parquet, others run files.
func Read(path string, each func(Run) error) error { return ReadWith(path, nil, each) }

// ReadWith is [Read] and passes each opened run file to look, if not nil, before reading it.
func ReadWith(path string, look func(*results.Run) error, each func(Run) error) error {
	if strings.EqualFold(filepath.Ext(path), Parquet) {
		found, err := parquetfile.ReadRuns(path)
		if err != nil {
			return err
		}
		for _, r := range found {
			if err := each(Run{Path: path, ID: r.Run, Host: r.Host, Labels: r.Labels, Cards: r.Cards, Meta: r.Meta,
				Series: r.Series, Sentinels: r.Sentinels, Sustained: r.Sustained}); err != nil {
				return err
			}
		}
		return nil
	}
	run, err := results.Open(path)
	if err != nil {
		return err
	}
	found, err := ofFile(path, run)
	if err == nil && look != nil {
		err = look(run)
	}
	if err := errors.Join(err, run.Close()); err != nil {
		return err
	}
	for _, r := range found {
		if err := each(r); err != nil {
			return err
		}
	}
	return nil
}

type place struct{ run, host, labels string }

func ofFile(path string, run *results.Run) ([]Run, error) {
	loaded, err := run.Load()
	if err != nil {
		return nil, err
	}
	origins, err := run.Origins()
	if err != nil {
		return nil, err
	}
	whole := Run{Path: path, Meta: run.Meta(), Series: loaded.Series, Sentinels: loaded.Sentinels, Cards: map[string]string{},
		Warnings: run.Warnings()}
	whole.Host = whole.Meta.Fingerprint.Hostname
	if whole.Sustained, err = run.RowsOf(loaded.Sustained); err != nil {
		return nil, err
	}
	places := map[place]bool{}
	for _, o := range origins {
		places[placeOf(o)] = true
	}
	if len(places) <= 1 {
		for _, o := range origins {
			whole.take(o)
		}
		return []Run{whole}, nil
	}
	return divided(run, whole, origins)
}

func placeOf(o results.Origin) place {
	p := place{run: o.Run, host: o.Host}
	for _, key := range slices.Sorted(maps.Keys(o.Labels)) {
		p.labels += fmt.Sprintf("%q=%q ", key, o.Labels[key])
	}
	return p
}

func (r *Run) take(o results.Origin) {
	r.ID, r.Host, r.Labels = o.Run, cmp.Or(o.Host, r.Host), o.Labels
	if o.Card != "" {
		r.Cards[o.Device] = o.Card
	}
}

// divided separates a merged run: each case belongs to the run that measured it. Cases measured by several
// are left out, since a slow machine could not be identified.
func divided(run *results.Run, whole Run, origins []results.Origin) ([]Run, error) {
	from, err := run.CaseOrigins()
	if err != nil {
		return nil, err
	}
	byID := map[int64]results.Origin{}
	for _, o := range origins {
		byID[o.ID] = o
	}
	var parts []*Run
	at := map[place]*Run{}
	of := func(caseID int64) *Run {
		o := byID[from[caseID]]
		p := placeOf(o)
		part := at[p]
		if part == nil {
			part = &Run{Path: whole.Path, Meta: whole.Meta, Cards: map[string]string{}, Warnings: whole.Warnings}
			whole.Warnings = nil
			part.Meta.Fingerprint.Hostname = o.Host
			at[p], parts = part, append(parts, part)
		}
		part.take(o)
		return part
	}
	mixed := 0
	for _, s := range whole.Series {
		rows := map[*Run][]results.Row{}
		var order []*Run
		for _, row := range s.Rows {
			if from[row.Case.ID] == 0 {
				mixed++
				continue
			}
			r := of(row.Case.ID)
			if rows[r] == nil {
				order = append(order, r)
			}
			rows[r] = append(rows[r], row)
		}
		for _, r := range order {
			part := s
			part.Rows = rows[r]
			r.Series = append(r.Series, part)
		}
	}
	for _, s := range whole.Sentinels {
		if from[s.CaseID] != 0 {
			r := of(s.CaseID)
			r.Sentinels = append(r.Sentinels, s)
		}
	}
	for _, row := range whole.Sustained {
		if from[row.Case.ID] == 0 {
			continue
		}
		r := of(row.Case.ID)
		r.Sustained = append(r.Sustained, row)
	}
	if mixed > 0 && len(parts) == 0 {
		return nil, fmt.Errorf("each of its %d cases was measured by several machines", mixed)
	}
	if mixed > 0 {
		parts[0].LeftOut = mixed
		parts[0].Warnings = append(slices.Clone(parts[0].Warnings),
			fmt.Sprintf("%d cases have samples of several runs and are skipped", mixed))
	}
	out := make([]Run, len(parts))
	for i, part := range parts {
		out[i] = *part
	}
	return out, nil
}

// Found are the files named on a command line.
type Found struct {
	// Files are distinct and in order.
	Files []string
	// Unread are unreadable names with reasons.
	Unread []Unread
	// Links are links in folders, which are not followed.
	Links []string
}

// Unread is an unreadable file or folder.
type Unread struct {
	Path string
	Err  error
}

// Find lists the files that arguments name: files, all run and Parquet files below folders, and matches of
// patterns. Links in folders are listed, not followed. A name without matches is an error; an unreadable
// subfolder is not.
func Find(args []string) (Found, error) {
	var f Found
	seen := map[string]bool{}
	add := func(path string) {
		if path = filepath.Clean(path); !seen[path] {
			seen[path] = true
			f.Files = append(f.Files, path)
		}
	}
	for _, arg := range args {
		names := []string{arg}
		if _, err := os.Lstat(arg); errors.Is(err, fs.ErrNotExist) && strings.ContainsAny(arg, "*?[") {
			matched, err := filepath.Glob(arg)
			if err != nil {
				return f, fmt.Errorf("pattern %q: %w", arg, err)
			}
			if len(matched) == 0 {
				return f, fmt.Errorf("pattern %q matches no file", arg)
			}
			names = matched
		}
		for _, name := range names {
			info, err := os.Stat(name)
			if err != nil {
				return f, err
			}
			if !info.IsDir() {
				add(name)
				continue
			}
			none := true
			// The trailing separator makes it walk a folder named by a link.
			err = filepath.WalkDir(name+string(filepath.Separator), func(path string, d fs.DirEntry, err error) error {
				if err != nil {
					none = false
					f.Unread = append(f.Unread, Unread{filepath.Clean(path), err})
					if d != nil && d.IsDir() {
						return fs.SkipDir
					}
					return nil
				}
				if d.Type()&fs.ModeSymlink != 0 {
					if !seen[path] {
						seen[path], f.Links = true, append(f.Links, path)
					}
					return nil
				}
				if ext := strings.ToLower(filepath.Ext(path)); d.Type().IsRegular() && (ext == RunFile || ext == Parquet) {
					none = false
					add(path)
				}
				return nil
			})
			if err != nil {
				return f, err
			}
			if none {
				return f, fmt.Errorf("folder %q: no run below it: expected files that end in %s or %s%s", name, RunFile, Parquet,
					notFollowed(f.Links))
			}
		}
	}
	return f, nil
}

// notFollowed describes links that may explain why a folder has no run.
func notFollowed(links []string) string {
	if len(links) == 0 {
		return ""
	}
	return fmt.Sprintf("; links as %q are not followed", links[0])
}
