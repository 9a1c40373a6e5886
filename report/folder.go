package report

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"

	"golang.org/x/sync/errgroup"

	"github.com/gemmaudit/gemmaudit/kernels/regular"
	"github.com/gemmaudit/gemmaudit/results"
	"github.com/gemmaudit/gemmaudit/results/draft"
	"github.com/gemmaudit/gemmaudit/rules"
)

// Input is everything that a report folder shows. Only Series is needed.
type Input struct {
	Meta results.Meta
	// Run is the path of the run file, as the reader should see it.
	Run    string
	Series []results.Series
	Audit  *rules.Audit
	Splits *rules.SplitsResult
	// Sentinels are the samples whose drift is drawn, Cases their cases by id.
	Sentinels []results.Sample
	Cases     map[int64]results.Case
	// Executed are cases of remedies, and of products that were timed in turns with them, with their
	// samples of that.
	Executed []results.Row
	// DriftBound is the drift past which the run would be invalid, 0 when unknown.
	DriftBound float64
	// Boundaries gives the waves and tiles of a series; nil when none are known.
	Boundaries func(results.SeriesKey) []Boundary
	// Compress has index.html hold its content compressed and unpack itself when it is opened.
	Compress bool
	// Notes are further lines under the summary: the share of time spent in
	// kernels, where the lookup table lies.
	Notes []string
}

const (
	// manyRows is the number of rows above which a curve with a logarithmic axis
	// is drawn with a linear one too: most of its rows are in the last octaves.
	manyRows = 1000
	plotsDir = "plots"
)

// generatorMark stands in the first lines of an index.html of this package.
const generatorMark = `<meta name="generator" content="gemmaudit">`

// Replaceable says whether nothing is lost when [Write] leaves a report at dir: there is
// nothing, an empty folder, or a folder with a report of this package.
func Replaceable(dir string) (bool, error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) || err == nil && len(entries) == 0 {
		return true, nil
	}
	if err != nil {
		return false, err
	}
	f, err := regular.Open(filepath.Join(dir, "index.html"))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer f.Close()
	const head = 1 << 10
	start, err := io.ReadAll(io.LimitReader(f, head))
	return bytes.Contains(start, []byte(generatorMark)), err
}

// Write leaves the report folder at dir: index.html, report.md, findings.json,
// splits.json, series.csv and plots. Files are complete before they appear: they
// are made in a temporary folder next to their place and renamed. In a folder
// that exists already, files of the same name are replaced and all others stay.
// When it fails, or ctx ends, nothing appears; the error names the folder.
func Write(ctx context.Context, dir string, in Input, images []Image) error {
	return writeFolder(dir, func(tmp string) error { return fill(ctx, tmp, in, images) })
}

// writeFolder gives an empty folder to fill and moves what is in it then to dir.
func writeFolder(dir string, fill func(tmp string) error) error {
	fail := func(err error) error { return fmt.Errorf("write report folder %q: %w", dir, err) }
	info, err := os.Stat(dir)
	exists := err == nil
	switch {
	case exists && !info.IsDir():
		return fail(errors.New("a file of this name is in the way"))
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return fail(err)
	}
	target := dir
	if exists {
		// Inside, because the parent may be closed to us, or on another disk.
		target = filepath.Join(dir, "report")
	} else if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
		return fail(err)
	}
	d, err := draft.Folder(target)
	if err != nil {
		return fail(err)
	}
	defer d.Close()
	tmp := d.Path()
	if err := fill(tmp); err != nil {
		return fail(err)
	}
	if !exists {
		if err := os.Rename(tmp, dir); err != nil {
			return fail(err)
		}
		return nil
	}
	if err := moveInto(tmp, dir); err != nil {
		return fail(err)
	}
	return nil
}

// fill writes all files of a report into an empty folder.
func fill(ctx context.Context, dir string, in Input, images []Image) error {
	if err := os.Mkdir(filepath.Join(dir, plotsDir), 0o755); err != nil {
		return err
	}
	figures := Figures(in)
	if err := writeFigures(ctx, filepath.Join(dir, plotsDir), figures, images); err != nil {
		return err
	}
	p := newPage(in, figures)
	path := func(f *Figure) string {
		ending := SVG
		if slices.Contains(images, PNG) {
			ending = PNG
		}
		return plotsDir + "/" + f.Name + "." + string(ending)
	}
	md := *p
	if !slices.Contains(images, PNG) && !slices.Contains(images, SVG) {
		// Markdown can't show what is only there as PDF.
		md.sections = slices.DeleteFunc(slices.Clone(p.sections), func(s section) bool { return len(s.figures) > 0 })
	}
	files := []struct {
		name  string
		write func(io.Writer) error
	}{
		{"index.html", func(w io.Writer) error {
			write := func(w io.Writer) error { return p.html(w, newInteractive(in)) }
			if in.Compress {
				return packed(w, p.title, write)
			}
			return write(w)
		}},
		{"report.md", func(w io.Writer) error { return md.markdown(w, path) }},
		{"findings.json", func(w io.Writer) error { return writeJSON(w, in.Audit.WithoutClean()) }},
		{"splits.json", func(w io.Writer) error { return writeJSON(w, in.Splits) }},
		{"series.csv", func(w io.Writer) error { return WriteMedians(w, CSV, in.Meta, in.Series, in.Audit) }},
	}
	for _, f := range files {
		if f.name == "findings.json" && in.Audit == nil || f.name == "splits.json" && in.Splits == nil {
			continue
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := writeFile(filepath.Join(dir, f.name), f.write); err != nil {
			return err
		}
	}
	return nil
}

// writeFigures writes every figure in every format.
func writeFigures(ctx context.Context, dir string, figures []*Figure, images []Image) error {
	if slices.Contains(images, PDF) {
		restore, err := makeTemporary(dir)
		if err != nil {
			return err
		}
		defer restore()
	}
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(runtime.GOMAXPROCS(0))
	for _, f := range figures {
		g.Go(func() error {
			for _, format := range images {
				if err := ctx.Err(); err != nil {
					return err
				}
				err := writeFile(filepath.Join(dir, f.Name+"."+string(format)), func(w io.Writer) error { return f.Write(w, format) })
				if err != nil {
					return err
				}
			}
			return nil
		})
	}
	return g.Wait()
}

// makeTemporary makes dir the folder for temporary files until restore is called, where the system's can't be written to. The PDF canvas
// makes its fonts there, and has no other way to be told of a folder.
func makeTemporary(dir string) (restore func(), err error) {
	if probe, err := os.MkdirTemp("", "gemmaudit-"); err == nil {
		return func() {}, os.Remove(probe)
	}
	const variable = "TMPDIR"
	before, given := os.LookupEnv(variable)
	return func() {
		if given {
			os.Setenv(variable, before)
		} else {
			os.Unsetenv(variable)
		}
	}, os.Setenv(variable, dir)
}

// writeFile creates a file and makes sure that it is on disk.
func writeFile(path string, write func(io.Writer) error) (err error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if err := write(f); err != nil {
		return err
	}
	return f.Sync()
}

// moveInto renames every file of from to its place in to. The pages come last:
// until then the old ones stand next to plots of the same names.
func moveInto(from, to string) error {
	plots, err := os.ReadDir(filepath.Join(from, plotsDir))
	switch {
	case errors.Is(err, fs.ErrNotExist): // a comparison has none
	case err != nil:
		return err
	default:
		if err := os.MkdirAll(filepath.Join(to, plotsDir), 0o755); err != nil {
			return err
		}
	}
	for _, e := range plots {
		if err := os.Rename(filepath.Join(from, plotsDir, e.Name()), filepath.Join(to, plotsDir, e.Name())); err != nil {
			return err
		}
	}
	for _, name := range []string{"series.csv", "findings.json", "splits.json", "diff.json", "fleet.json", "cards.csv", "report.md", "index.html"} {
		err := os.Rename(filepath.Join(from, name), filepath.Join(to, name))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}
