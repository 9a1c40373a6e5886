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

// The plans that are endured: some hundred milliseconds of a sweep that measures all it was asked for, and of one that infers.
var (
	planned  = strings.Fields("--shape n256k256 --batch 32:160:2 --dtype fp32 --kernel dented,flat --rounds 35 --rounds-for all")
	shorter  = strings.Fields("--shape n256k256 --batch 32:160:8 --dtype fp32 --kernel dented,flat --rounds 12 --rounds-for all")
	inferred = strings.Fields("--shape n256k256 --batch 1:400 --dtype fp32 --kernel dented,flat --infer")
)

// fixtures are the command lines that make what the others are given.
var fixtures = [][]string{
	slices.Concat([]string{"sweep", "-q"}, shorter, []string{"--out", "run.db"}),
	slices.Concat([]string{"sweep", "-q"}, planned, []string{"--shard", "1/2", "--out", "1.db"}),
	slices.Concat([]string{"sweep", "-q"}, planned, []string{"--shard", "2/2", "--out", "2.db"}),
	{"export", "1.db", "--out", "rows.csv"},
}

// ordeal is a command that is ended at any moment and started again, until it comes to its own end.
type ordeal struct {
	name  string
	given []string // fixtures that lie in the folder before
	first []string // the command line
	// made is the file whose presence makes again the command line of later starts; where again is nil too,
	// the work is done when it is there. Without made every start is like the first.
	made  string
	again []string
	run   string // the run file that gathers samples
	exact bool   // whether the samples of the sweep are the plan's, however it is interrupted
	code  int    // the exit code of its own end
	// after is run once it has ended, and must exit as it did and say this on stderr.
	after []string
	says  string
}

var ordeals = []*ordeal{
	{
		name: "sweep", first: slices.Concat([]string{"sweep"}, planned, []string{"--out", "run.db"}), made: "run.db",
		again: []string{"sweep", "--resume", "--out", "run.db"}, run: "run.db", exact: true,
		after: []string{"sweep", "--resume", "--out", "run.db"}, says: "complete: 0 samples were left to measure",
	},
	{
		name: "night", first: slices.Concat([]string{"sweep"}, inferred, []string{"--out", "run.db"}), made: "run.db",
		again: []string{"sweep", "--resume", "--out", "run.db"}, run: "run.db",
		after: []string{"sweep", "--resume", "--out", "run.db"}, says: "complete: 0 samples were left to measure",
	},
	{
		name: "run", first: slices.Concat([]string{"run", "--images", "svg"}, shorter, []string{"--out", "folder"}), made: "folder/run.db",
		again: []string{"run", "--images", "svg", "--resume", "--out", "folder"}, run: "folder/run.db", exact: true, code: exitGate,
		after: []string{"audit", "folder/run.db"}, says: "6 confirmed findings",
	},
	{
		name: "audit", given: []string{"run.db"}, first: []string{"audit", "run.db", "--confirm"}, run: "run.db", exact: true, code: exitGate,
		after: []string{"audit", "run.db"}, says: "6 confirmed findings",
	},
	{
		name: "splits", given: []string{"run.db"}, first: []string{"splits", "run.db", "--among", "all", "--execute", "--table", "table.json"},
		made: "table.json", again: []string{"splits", "run.db", "--among", "all", "--execute", "--table", "table.json", "--force"},
		run: "run.db", exact: true,
	},
	{name: "merge", given: []string{"1.db", "2.db"}, first: []string{"merge", "all.db", "1.db", "2.db"}, made: "all.db"},
	{name: "import", given: []string{"rows.csv"}, first: []string{"import", "rows.csv", "--out", "imported.db"}, made: "imported.db"},
	{name: "report", given: []string{"1.db"}, first: []string{"report", "1.db", "--images", "svg", "--out", "site"}},
}

// next is the command line of the next start, nil when what is to be made is there.
func (o *ordeal) next(dir string) []string {
	if o.made != "" {
		if _, err := os.Stat(filepath.Join(dir, o.made)); err == nil {
			return o.again
		}
	}
	return o.first
}

// reference is what a command leaves that nothing disturbs.
type reference struct {
	took   time.Duration
	files  []string           // of the folder
	counts map[string]int     // samples of each run file
	swept  map[place]struct{} // samples of the sweep in the run that gathers them
}

// place is where a sample belongs: no two may have the same.
type place struct {
	c     results.CaseKey
	phase results.Phase
	round int
}

// prepare makes a folder with what a command is given.
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

// reference runs a command undisturbed, so many times, and takes the shortest of them.
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

// listed names the files below dir.
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
