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
	"github.com/gemmaudit/gemmaudit/rules/remedy"
)

// Input is the content of a report folder. Only Series is required.
type Input struct {
	Meta results.Meta
	// Run is the path of the run file, as shown to the reader.
	Run    string
	Series []results.Series
	Audit  *rules.Audit
	Splits *remedy.Result
	// Answer opens the pages. If it is nil, or findings were selected, the pages open with the findings.
	Answer *Answer
	// Sentinels holds the samples of the drift plot; Cases holds their cases by ID.
	Sentinels []results.Sample
	Cases     map[int64]results.Case
	// Executed holds the cases of remedies, and the products timed in turns with them, with those samples.
	Executed []results.Row
	// DriftBound is the drift above which the run is invalid, 0 if unknown.
	DriftBound float64
	// Boundaries returns the wave and tile boundaries of a series; nil if unknown.
	Boundaries func(results.SeriesKey) []Boundary
	// Compress makes index.html hold its content compressed and unpack it when opened.
	Compress bool
	// Notes are more lines under the summary: the share of time spent in kernels, the path of the lookup
	// table.
	Notes []string
}

// answer returns the answer that opens the pages, nil if they open with the findings.
func (in Input) answer() *Answer {
	if in.Audit == nil || !answers(in.Audit) {
		return nil
	}
	return in.Answer
}

const (
	// manyRows is the number of rows above which a curve with a logarithmic M axis also gets a linear plot,
	// because most of its rows are in the last octaves.
	manyRows = 1000
	plotsDir = "plots"
)

// generatorMark identifies this package's index.html in its first lines.
const generatorMark = `<meta name="generator" content="gemmaudit">`

// Replaceable reports whether [Write] can use dir without losing data: dir is missing, empty, or holds a
// report of this package.
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

// Write writes the report folder at dir: index.html, report.md, findings.json, splits.json, series.csv and
// plots. Files are made in a temporary folder and renamed when all are complete. In an existing folder Write
// replaces files of the same names and keeps all others. If it fails before renaming, or ctx ends, dir is
// unchanged; the error names the folder.
func Write(ctx context.Context, dir string, in Input, images []Image) error {
	return writeFolder(dir, func(tmp string) error { return fill(ctx, tmp, in, images) })
}

// writeFolder calls fill with an empty folder, then moves its content to dir.
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
		// Use a subfolder, because the parent may be read-only or on another disk.
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
		// Markdown cannot show figures that exist only as PDF.
		md.sections = slices.DeleteFunc(slices.Clone(p.sections), func(s section) bool { return len(s.figures) > 0 })
	}
	files := []folderFile{
		{"index.html", func(w io.Writer) error {
			write := func(w io.Writer) error { return p.html(w, newInteractive(in)) }
			if in.Compress {
				return packed(w, p.title, write)
			}
			return write(w)
		}},
		{"report.md", func(w io.Writer) error { return md.markdown(w, path) }},
		{"series.csv", func(w io.Writer) error { return WriteMedians(w, CSV, in.Meta, in.Series, in.Audit) }},
	}
	if in.Audit != nil {
		files = append(files, folderFile{"findings.json", func(w io.Writer) error {
			if in.answer() == nil {
				return writeJSON(w, in.Audit.WithoutClean())
			}
			return writeJSON(w, judged(in.Audit, in.Answer))
		}})
	}
	if in.Splits != nil {
		files = append(files, folderFile{"splits.json", func(w io.Writer) error { return writeJSON(w, in.Splits) }})
	}
	return writeFiles(ctx, dir, files)
}

// folderFile is a file of a folder.
type folderFile struct {
	name  string
	write func(io.Writer) error
}

func writeFiles(ctx context.Context, dir string, files []folderFile) error {
	for _, f := range files {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := writeFile(filepath.Join(dir, f.name), f.write); err != nil {
			return err
		}
	}
	return nil
}

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

// makeTemporary makes dir the process's temporary folder until restore is called, if the system's is not
// writable. The PDF canvas writes its fonts there and accepts no other path.
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

// writeFile creates a file and syncs it to disk.
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

// moveInto renames every file of from into to. The pages come last, so old pages may briefly reference new
// plots of the same names.
func moveInto(from, to string) error {
	plots, err := os.ReadDir(filepath.Join(from, plotsDir))
	switch {
	case errors.Is(err, fs.ErrNotExist): // comparisons have no such file
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
	for _, name := range []string{"series.csv", "findings.json", "splits.json", "diff.json", "fleet.json", "cards.csv", "report.md",
		"index.html"} {
		err := os.Rename(filepath.Join(from, name), filepath.Join(to, name))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}
