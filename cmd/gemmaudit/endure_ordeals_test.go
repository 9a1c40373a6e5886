package main

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/gemmaudit/gemmaudit/results"
)

// The plans under test: some hundred milliseconds of a sweep that measures all cases, and of a sweep that infers.
var (
	planned  = strings.Fields("--shape n256k256 --batch 32:160:2 --dtype fp32 --kernel dented,flat --rounds 35 --rounds-for all")
	shorter  = strings.Fields("--shape n256k256 --batch 32:160:8 --dtype fp32 --kernel dented,flat --rounds 12 --rounds-for all")
	inferred = strings.Fields("--shape n256k256 --batch 1:400 --dtype fp32 --kernel dented,flat --infer")
)

// fixtures are the command lines that make the other commands' inputs.
var fixtures = [][]string{
	slices.Concat([]string{"sweep", "-q"}, shorter, []string{"--out", "run.db"}),
	slices.Concat([]string{"sweep", "-q"}, planned, []string{"--shard", "1/2", "--out", "1.db"}),
	slices.Concat([]string{"sweep", "-q"}, planned, []string{"--shard", "2/2", "--out", "2.db"}),
	{"export", "1.db", "--out", "rows.csv"},
}

// ordeal is a command that is killed at random moments and restarted until it finishes.
type ordeal struct {
	name  string
	given []string // fixtures in the folder at the start
	first []string // the command line
	// If the file made exists, later starts use the command line again; if again is nil, the work is done.
	// Without made, all starts are the same.
	made  string
	again []string
	run   string // the run file with the samples
	exact bool   // the sweep's samples must be the plan's, despite interruptions
	code  int    // expected exit code
	// after runs at the end and must exit with the same code and print this on stderr.
	after []string
	says  string
}

var ordeals = []*ordeal{
	{
		name: "sweep", first: slices.Concat([]string{"sweep"}, planned, []string{"--out", "run.db"}), made: "run.db",
		again: []string{"sweep", "--resume", "--out", "run.db"}, run: "run.db", exact: true,
		after: []string{"sweep", "--resume", "--out", "run.db"}, says: "complete: all samples are already",
	},
	{
		name: "night", first: slices.Concat([]string{"sweep"}, inferred, []string{"--out", "run.db"}), made: "run.db",
		again: []string{"sweep", "--resume", "--out", "run.db"}, run: "run.db",
		after: []string{"sweep", "--resume", "--out", "run.db"}, says: "complete: all samples are already",
	},
	{
		name: "run", first: slices.Concat([]string{"run", "--images", "svg"}, shorter, []string{"--out", "folder"}), made: "folder/run.db",
		again: []string{"run", "--images", "svg", "--resume", "--out", "folder"}, run: "folder/run.db", exact: true, code: exitGate,
		after: []string{"audit", "folder/run.db"}, says: "6 confirmed findings",
	},
	{
		name: "audit", given: []string{"run.db"}, first: []string{"audit", "run.db", "--confirm"}, run: "run.db", exact: true,
		code:  exitGate,
		after: []string{"audit", "run.db"}, says: "6 confirmed findings",
	},
	{
		name: "splits", given: []string{"run.db"},
		first: []string{"splits", "run.db", "--among", "all", "--execute", "--table", "table.json"},
		made:  "table.json", again: []string{"splits", "run.db", "--among", "all", "--execute", "--table", "table.json", "--force"},
		run: "run.db", exact: true,
	},
	{name: "merge", given: []string{"1.db", "2.db"}, first: []string{"merge", "all.db", "1.db", "2.db"}, made: "all.db"},
	{name: "import", given: []string{"rows.csv"}, first: []string{"import", "rows.csv", "--out", "imported.db"}, made: "imported.db"},
	{name: "report", given: []string{"1.db"}, first: []string{"report", "1.db", "--images", "svg", "--out", "site"}},
}

func (o *ordeal) next(dir string) []string {
	if o.made != "" {
		if _, err := os.Stat(filepath.Join(dir, o.made)); err == nil {
			return o.again
		}
	}
	return o.first
}

// reference is the output of an undisturbed command.
type reference struct {
	took   time.Duration
	files  []string           // of the folder
	counts map[string]int     // samples of each run file
	swept  map[place]struct{} // samples of the sweep in that run file
}

// place identifies a sample; no two samples may share one.
type place struct {
	c     results.CaseKey
	phase results.Phase
	round int
}

func (e *endurance) prepare(o *ordeal) (string, error) {
	dir, err := os.MkdirTemp(e.parent, o.name+"-")
	if err != nil {
		return "", err
	}
	for _, name := range o.given {
		data, err := os.ReadFile(filepath.Join(e.fixtures, name))
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, name), data, 0o644)
		}
		if err != nil {
			return dir, err
		}
	}
	return dir, nil
}

// reference runs a command undisturbed the given number of times and keeps the shortest time.
func (e *endurance) reference(o *ordeal, times int) (r reference, err error) {
	var dir string
	defer func() { os.RemoveAll(dir) }()
	for range times {
		if err := os.RemoveAll(dir); err != nil {
			return r, err
		}
		if dir, err = e.prepare(o); err != nil {
			return r, err
		}
		began := time.Now()
		end, err := e.start(dir, o.first, blow{})
		if err != nil {
			return r, err
		}
		if took := time.Since(began); r.took == 0 || took < r.took {
			r.took = took
		}
		if !end.own(o.code) {
			return r, fmt.Errorf("%v", end)
		}
	}
	if r.files, err = listed(dir); err != nil {
		return r, err
	}
	r.counts = map[string]int{}
	for _, name := range r.files {
		if filepath.Ext(name) != ".db" {
			continue
		}
		samples, places, err := e.read(filepath.Join(dir, name))
		if err != nil {
			return r, err
		}
		r.counts[name] = len(samples)
		if name == o.run {
			r.swept = sweptOf(places)
		}
	}
	return r, nil
}

func listed(dir string) (names []string, err error) {
	err = filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		name, err := filepath.Rel(dir, path)
		names = append(names, name)
		return err
	})
	return names, err
}

func sweptOf(places map[place]struct{}) map[place]struct{} {
	out := map[place]struct{}{}
	for p := range places {
		if p.phase == results.PhaseSweep {
			out[p] = struct{}{}
		}
	}
	return out
}
