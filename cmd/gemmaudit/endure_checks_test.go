package main

import (
	"bytes"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/gemmaudit/gemmaudit/results"
	"github.com/gemmaudit/gemmaudit/results/table"
)

// check verifies the files after a kill: the run keeps all earlier samples and is sound, files with final
// names are complete, and inputs are unchanged. It returns the run's samples.
func (e *endurance) check(o *ordeal, dir string, before []results.Sample, inPlace bool) ([]results.Sample, error) {
	samples := before
	if o.run != "" {
		path := filepath.Join(dir, o.run)
		_, err := os.Stat(path)
		switch {
		case errors.Is(err, fs.ErrNotExist) && len(before) == 0 && !slices.Contains(o.given, o.run):
		case err != nil:
			return nil, err
		default:
			if samples, _, err = e.read(path); err != nil {
				return nil, err
			}
			if err := holds(samples, before); err != nil {
				return nil, fmt.Errorf("%s: %w", o.run, err)
			}
			if inPlace {
				r, err := results.Open(path)
				if err != nil {
					return nil, err
				}
				again, err := r.Samples("")
				if err := errors.Join(err, r.Close()); err != nil {
					return nil, err
				}
				if !slices.Equal(again, samples) {
					return nil, fmt.Errorf("%s holds %d samples and its copy %d", o.run, len(again), len(samples))
				}
			}
		}
	}
	names, err := listed(dir)
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		if name == o.run || unfinished(name) {
			continue
		}
		if err := e.whole(o, dir, name); err != nil {
			return nil, fmt.Errorf("%s is not whole: %w", name, err)
		}
	}
	return samples, nil
}

// holds returns an error if a sample of before is missing or changed.
func holds(samples, before []results.Sample) error {
	bySeq := make(map[int64]results.Sample, len(samples))
	for _, s := range samples {
		bySeq[s.Seq] = s
	}
	for _, s := range before {
		if now, there := bySeq[s.Seq]; !there || now != s {
			return fmt.Errorf("sample %+v is lost: %+v, %v", s, now, there)
		}
	}
	return nil
}

// unfinished reports whether a name belongs to a draft, a file inside one, or a run's journal or lock.
func unfinished(name string) bool {
	for part := range strings.SplitSeq(filepath.ToSlash(name), "/") {
		if strings.HasPrefix(part, ".") && strings.HasSuffix(part, ".part") {
			return true
		}
	}
	for _, suffix := range []string{"-wal", "-shm", "-journal", ".lock"} {
		if strings.HasSuffix(name, suffix) {
			return true
		}
	}
	return false
}

func (e *endurance) whole(o *ordeal, dir, name string) error {
	path := filepath.Join(dir, name)
	data, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if slices.Contains(o.given, name) {
		given, err := os.ReadFile(filepath.Join(e.fixtures, name))
		if err == nil && !bytes.Equal(data, given) {
			err = errors.New("it was given and has changed")
		}
		return err
	}
	ends := func(with string) error {
		if !bytes.HasSuffix(bytes.TrimSpace(data), []byte(with)) {
			return fmt.Errorf("%d bytes, without %s at its end", len(data), with)
		}
		return nil
	}
	switch filepath.Ext(name) {
	case ".db":
		samples, _, err := e.read(path)
		if want := e.undisturbed[o.name].counts[name]; err == nil && len(samples) != want {
			err = fmt.Errorf("%d samples, expected %d", len(samples), want)
		}
		return err
	case ".json":
		if filepath.Base(name) == "table.json" {
			_, err := table.Parse(data)
			return err
		}
		if !json.Valid(data) {
			return fmt.Errorf("%d bytes that are no JSON", len(data))
		}
		return nil
	case ".html":
		return ends("</html>")
	case ".svg":
		return ends("</svg>")
	}
	if len(data) == 0 {
		return errors.New("it is empty")
	}
	return nil
}

// finish requires the output of an undisturbed command and no other files.
func (e *endurance) finish(o *ordeal, dir string) error {
	want := e.undisturbed[o.name]
	if len(o.after) > 0 {
		end, err := e.start(dir, o.after, blow{})
		if err != nil {
			return err
		}
		if !end.own(o.code) || !strings.Contains(end.stderr, o.says) {
			return fmt.Errorf("%s afterwards: %v, expected exit code %d and %q", commandLine(o.after), end, o.code, o.says)
		}
	}
	if o.run != "" {
		_, places, err := e.read(filepath.Join(dir, o.run))
		if err != nil {
			return err
		}
		if swept := sweptOf(places); o.exact {
			for p := range want.swept {
				if _, there := swept[p]; !there {
					return fmt.Errorf("%s lacks %v, round %d", o.run, p.c, p.round)
				}
			}
			if len(swept) != len(want.swept) {
				return fmt.Errorf("%s has %d samples of the sweep, expected %d", o.run, len(swept), len(want.swept))
			}
		}
	}
	if _, err := e.check(o, dir, nil, true); err != nil {
		return err
	}
	files, err := listed(dir)
	if err != nil {
		return err
	}
	if o.made != "" && o.again == nil {
		// A process killed after the last step has no time to clean up.
		files = slices.DeleteFunc(files, unfinished)
	}
	if !slices.Equal(files, want.files) {
		return fmt.Errorf("files %q, expected %q", files, want.files)
	}
	return nil
}

// read reads all samples of a copy of a run, because opening a run may fold its journal. It returns an error
// for a damaged run or duplicate samples.
func (e *endurance) read(path string) ([]results.Sample, map[place]struct{}, error) {
	dir, err := os.MkdirTemp(e.scratch, "copy-")
	if err != nil {
		return nil, nil, err
	}
	defer os.RemoveAll(dir)
	to := filepath.Join(dir, "run.db")
	for _, suffix := range []string{"", "-wal"} {
		data, err := os.ReadFile(path + suffix)
		if errors.Is(err, fs.ErrNotExist) && suffix != "" {
			continue
		}
		if err == nil {
			err = os.WriteFile(to+suffix, data, 0o644)
		}
		if err != nil {
			return nil, nil, err
		}
	}
	if err := integrity(to); err != nil {
		return nil, nil, fmt.Errorf("%s: %w", path, err)
	}
	r, err := results.Open(to)
	if err != nil {
		return nil, nil, err
	}
	defer r.Close()
	cases, err := r.Cases()
	if err != nil {
		return nil, nil, err
	}
	byID := map[int64]results.CaseKey{}
	for _, c := range cases {
		byID[c.ID] = c.Key()
	}
	samples, err := r.Samples("")
	if err != nil {
		return nil, nil, err
	}
	places := map[place]struct{}{}
	for i, s := range samples {
		p := place{byID[s.CaseID], s.Phase, s.Round}
		if _, twice := places[p]; twice {
			return nil, nil, fmt.Errorf("%s: %v of round %d is there twice", path, s, s.Round)
		}
		places[p] = struct{}{}
		if i > 0 && s.Seq <= samples[i-1].Seq {
			return nil, nil, fmt.Errorf("%s: seq %d follows %d", path, s.Seq, samples[i-1].Seq)
		}
	}
	return samples, places, nil
}

func integrity(path string) error {
	db, err := sql.Open("sqlite", "file:"+path+"?mode=rw")
	if err != nil {
		return err
	}
	defer db.Close()
	var verdict string
	if err := db.QueryRow(`PRAGMA integrity_check`).Scan(&verdict); err != nil {
		return err
	}
	if verdict != "ok" {
		return errors.New(verdict)
	}
	return nil
}
