// Command structure prints how a Go module is built: files that each example of the page on extending touches, lines by package, wide
// lines, files that refer upward, and the ways of values through functions. Run it in the module, or with --dir.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"
)

const help = `usage: structure [--dir DIR] [--base REV] [--page FILE] [--path 'TITLE: pkg.Type pkg.Type']... [PACKAGE]...

PACKAGE is ./... by default. With --base every figure is printed twice: at REV, checked out into a temporary worktree, and now.

Fixtures: an example_*_test.go or fixture_*_test.go file that the page on extending shows. Columns: files that the table of its section
lists as edited and as new, and files besides it that name what it declares, which would have to change with it.

Lines: lines of .go files, of this machine's build or another's, generated ones included; tests are *_test.go and testdata. Wide lines
have more than 140 columns, with 4 columns for a tab; generated files are left out.

Arrows: one file refers to a declaration, field or method of another file of its package; each pair of files counts once. Files are
ordered so that as few arrows as possible point from a lower to a higher file: by references out less references in, then by moving one
file at a time while that helps. The least share is hard to find, so the one printed may lie a little above it.

Paths: a path is a list of types, from where the value begins to where it ends. "pkg.Type" is a type of a package at that path in the
module, or of one below it; types that a revision does not have are skipped. A function passes the value on if its receiver, a parameter
or a result is one of them, or a pointer, slice, array, map or channel of it. It counts if a call from main reaches it and if it calls,
or is called by, another that passes the value on. A crossing is such a call between two packages; calls are pairs of functions,
resolved by variable type analysis (VTA). Calls that libraries make back into the module are not seen.

`

// paths are the ways of values that are followed unless --path names others.
var paths = pathList{
	{"plan to run file", []string{"sweep.Options", "sweep.Plan", "results.PlannedSeries", "results.Planned"}},
	{"sample to verdict", []string{
		"results.Sample", "results.Row", "results.Series", "rules/infer.Point", "rules/infer.Curve",
		"rules/infer.Estimates", "rules.Judgement", "rules.RowVerdict",
	}},
	{"finding to printed row", []string{
		"rules.Finding", "rules.Audit", "rules/problem.Problem", "report.FindingRecord", "report.Sheet", "report.Document",
	}},
}

func main() {
	if err := run(os.Args[1:], os.Stdout, os.Stderr); err != nil {
		if !errors.Is(err, flag.ErrHelp) {
			fmt.Fprintln(os.Stderr, "structure:", err)
		}
		os.Exit(2)
	}
}

type options struct {
	dir, base, page string
	paths           pathList
	patterns        []string
}

func run(args []string, stdout, stderr io.Writer) error {
	var o options
	flags := flag.NewFlagSet("structure", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.StringVar(&o.dir, "dir", ".", "the module's `folder`")
	flags.StringVar(&o.base, "base", "", "compare with this `revision`")
	flags.StringVar(&o.page, "page", "docs/extending.md", "the page whose examples are counted, in the module; may be missing")
	flags.Var(&o.paths, "path", "a path to follow, in place of the three that are built in; repeatable")
	flags.Usage = func() { fmt.Fprint(stderr, help); flags.PrintDefaults() }
	if err := flags.Parse(args); err != nil {
		return err
	}
	if o.patterns = flags.Args(); len(o.patterns) == 0 {
		o.patterns = []string{"./..."}
	}
	if len(o.paths) == 0 {
		o.paths = paths
	}
	after, err := measure(o.dir, o)
	if err != nil {
		return err
	}
	if o.base == "" {
		return write(stdout, []measured{after})
	}
	before, err := measureBase(o)
	if err != nil {
		return fmt.Errorf("%s: %w", o.base, err)
	}
	return write(stdout, []measured{before, after})
}

// measureBase measures a revision in a worktree of its own, which it removes.
func measureBase(o options) (measured, error) {
	folder, err := os.MkdirTemp("", "structure")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(folder)
	tree := filepath.Join(folder, "tree")
	git := func(args ...string) (string, error) {
		out, err := exec.Command("git", append([]string{"-C", o.dir}, args...)...).CombinedOutput()
		if err != nil {
			err = fmt.Errorf("git %s: %w: %s", args[0], err, out)
		}
		return strings.TrimSpace(string(out)), err
	}
	inside, err := git("rev-parse", "--show-prefix")
	if err != nil {
		return nil, err
	}
	if _, err := git("worktree", "add", "--quiet", "--detach", tree, o.base); err != nil {
		return nil, err
	}
	defer func() { _, _ = git("worktree", "remove", "--force", tree) }()
	return measure(filepath.Join(tree, inside), o)
}

// figure is one line of the output. Its numbers have the names of the section's columns.
type figure struct {
	section, name string
	numbers       []string
}

// row makes a figure of numbers, or of texts.
func row(section, name string, numbers ...any) figure {
	f := figure{section: section, name: name}
	for _, n := range numbers {
		f.numbers = append(f.numbers, fmt.Sprint(n))
	}
	return f
}

type measured []figure

// measure returns all figures of a module.
func measure(dir string, o options) (measured, error) {
	m, err := load(dir, o.patterns)
	if err != nil {
		return nil, err
	}
	fixtures, err := m.fixtures(o.page)
	if err != nil {
		return nil, err
	}
	lines, err := m.lines()
	return slices.Concat(fixtures, lines, m.arrows(), m.flows(o.paths)), err
}

// columns are the sections in order, and the names of their numbers. One with a total is sorted, with the total last.
var columns = []struct {
	section, total string
	numbers        []string
}{
	{fixtureSection, "", []string{"edited", "new", "named elsewhere"}},
	{lineSection, allLines, []string{"lines", "in tests", "wide", "wide in tests"}},
	{arrowSection, allArrows, []string{"upward", "of", "share"}},
	{flowSection, "", []string{"functions", "calls", "crossings"}},
}

// write prints the figures of one revision, or of two as "before → after".
func write(w io.Writer, revisions []measured) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, c := range columns {
		fmt.Fprintf(t, "%s\t%s\n", c.section, strings.Join(c.numbers, "\t"))
		var names []string
		numbers := map[string][][]string{}
		for i, r := range revisions {
			for _, f := range r {
				if f.section != c.section {
					continue
				}
				if numbers[f.name] == nil {
					names = append(names, f.name)
					numbers[f.name] = make([][]string, len(revisions))
				}
				numbers[f.name][i] = f.numbers
			}
		}
		if c.total != "" {
			slices.Sort(names)
			names = append(slices.DeleteFunc(names, func(n string) bool { return n == c.total }), c.total)
		}
		for _, name := range names {
			fmt.Fprint(t, name)
			for i := range c.numbers {
				var cells []string
				for _, n := range numbers[name] {
					if n == nil {
						cells = append(cells, "-")
					} else if len(cells) == 0 || cells[len(cells)-1] != n[i] {
						cells = append(cells, n[i])
					}
				}
				fmt.Fprintf(t, "\t%s", strings.Join(cells, " → "))
			}
			fmt.Fprintln(t)
		}
		fmt.Fprintln(t)
	}
	return t.Flush()
}
