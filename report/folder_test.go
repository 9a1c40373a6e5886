package report

import (
	"bytes"
	"context"
	"encoding/csv"
	"encoding/json"
	"encoding/xml"
	"errors"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/report/golden"
	"github.com/gemmaudit/gemmaudit/results"
	"github.com/gemmaudit/gemmaudit/rules"
	"github.com/gemmaudit/gemmaudit/rules/infer"
	"github.com/gemmaudit/gemmaudit/rules/problem"
	"github.com/gemmaudit/gemmaudit/rules/remedy"
)

func fixtureInput() Input {
	second := fixtureSeries()[0]
	second.Key.Kernel = "onednn"
	return answered(Input{
		Meta: fixtureMeta(), Run: "out/run.db", Series: append(fixtureSeries(), second), Audit: fixtureAudit(), Splits: fixtureSplits(),
		Sentinels: fixtureSamples(40), Cases: map[int64]results.Case{0: {SeriesKey: fixtureKey, M: 128}},
		Notes:      []string{"94.2 % of the wall time was spent in kernels"},
		Boundaries: func(results.SeriesKey) []Boundary { return []Boundary{{256, "tile"}} },
	})
}

func answered(in Input) Input {
	problems, summary := problem.Find(infer.Data{Meta: in.Meta, Series: in.Series}, in.Audit, in.Splits, nil)
	in.Answer = &Answer{Summary: summary, Problems: problems}
	return in
}

func listing(t *testing.T, dir string) []string {
	t.Helper()
	var names []string
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			name, _ := filepath.Rel(dir, path)
			names = append(names, filepath.ToSlash(name))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return names
}

// The golden file omits the embedded page files and their hashes.
var (
	ownScript = regexp.MustCompile(`(?s)<(script|style)>.*?</(?:script|style)>`)
	anyScript = regexp.MustCompile(`(?s)(<script[^>]*>)(.*?)</script>`)
	policy    = regexp.MustCompile(`content="default-src[^"]*"`)
)

func TestReportFolder(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a", "report")
	if err := Write(context.Background(), dir, fixtureInput(), Images()); err != nil {
		t.Fatal(err)
	}
	golden.Compare(t, "folder", strings.Join(listing(t, dir), "\n")+"\n")
	md := read(t, dir, "report.md")
	golden.Compare(t, "report.md", md)
	page := read(t, dir, "index.html")
	if n := len(fixtureInput().Answer.Problems); n == 0 || strings.Count(page, "<svg") != n || strings.Contains(page, "<img") {
		t.Errorf("the page holds other pictures than those of its %d problems", n)
	}
	page = strings.Replace(page, pageFile(runKit.body), "BODY", 1)
	golden.Compare(t, "index.html", ownScript.ReplaceAllString(policy.ReplaceAllString(page, `content="POLICY"`), "<$1>FILE</$1>"))
	if !regexp.MustCompile(`^## GEMM audit of .*\n\n\*\*.*sizes? of.*\*\*\n(.*\n)*### Problems\n`).MatchString(md) {
		t.Errorf("title and outcome do not stand first: %.80q", md)
	}
	for _, m := range regexp.MustCompile(`\]\((plots/[^)]*)\)`).FindAllStringSubmatch(md, -1) {
		if _, err := os.Stat(filepath.Join(dir, m[1])); err != nil {
			t.Errorf("report.md shows %s: %v", m[1], err)
		}
	}
	var audit rules.Audit
	var answer Answer
	if err := json.Unmarshal([]byte(read(t, dir, "findings.json")), &answer); err != nil ||
		len(answer.Problems) != len(fixtureInput().Answer.Problems) || answer.Sizes == 0 {
		t.Errorf("findings.json: %d problems of %d sizes, %v", len(answer.Problems), answer.Sizes, err)
	}
	if err := json.Unmarshal([]byte(read(t, dir, "findings.json")), &audit); err != nil || len(audit.Findings) != 3 {
		t.Errorf("findings.json: %d findings, %v", len(audit.Findings), err)
	}
	var splits remedy.Result
	if err := json.Unmarshal([]byte(read(t, dir, "splits.json")), &splits); err != nil || len(splits.Splits) != 3 {
		t.Errorf("splits.json: %d splits, %v", len(splits.Splits), err)
	}
	rows, err := csv.NewReader(strings.NewReader(read(t, dir, "series.csv"))).ReadAll()
	if err != nil || len(rows) != 17 {
		t.Errorf("series.csv: %d rows, %v", len(rows), err)
	}
}

func read(t *testing.T, dir, name string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// codeSpan is a code span of two backticks, which makes everything in it text. markup is hostile markup
// outside code spans.
var (
	codeSpan = regexp.MustCompile("``.*?[^`]``")
	markup   = regexp.MustCompile(`<script|[^\\]\]\(http|@everyone`)
)

// Untrusted text must stay text: it must not add elements, attributes or links to the page or the Markdown.
func TestHostileTextInReport(t *testing.T) {
	in := fixtureInput()
	in.Meta.Fingerprint.Devices[0].Name = hostile
	in.Meta.Command = hostile + "\n```\n# heading"
	in.Series[0].Key.Kernel = hostile
	in.Audit.Series[0].Key.Kernel = hostile
	for i := range in.Audit.Findings {
		in.Audit.Findings[i].Series.Kernel = hostile
		in.Audit.Findings[i].Reproduce = hostile
		in.Audit.Findings[i].Waiver = hostile
	}
	in.Notes = []string{hostile}
	in = answered(in)
	dir := filepath.Join(t.TempDir(), "report")
	if err := Write(context.Background(), dir, in, []Image{SVG}); err != nil {
		t.Fatal(err)
	}
	page := read(t, dir, "index.html")
	// Browsers do not parse markup inside a script, but this parser would.
	for _, m := range anyScript.FindAllStringSubmatch(page, -1) {
		if strings.Contains(m[2], "<script>alert") {
			t.Errorf("hostile text stands in a script: %.80q", m[2])
		}
	}
	page = anyScript.ReplaceAllString(page, "$1</script>")
	scripts := 0
	d := xml.NewDecoder(strings.NewReader(page))
	d.Strict, d.AutoClose, d.Entity = false, xml.HTMLAutoClose, xml.HTMLEntity
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		element, ok := token.(xml.StartElement)
		if !ok {
			continue
		}
		switch strings.ToLower(element.Name.Local) {
		case "a":
			t.Fatalf("element %v in the page", element)
		case "script":
			scripts++
		}
		for _, a := range element.Attr {
			if strings.HasPrefix(strings.ToLower(a.Name.Local), "on") {
				t.Errorf("attribute %v", a)
			}
		}
	}
	if own := len(pageScripts) + strings.Count(page, `id="column-`) + 1; scripts != own {
		t.Errorf("%d scripts in the page, %d are its own", scripts, own)
	}
	md := read(t, dir, "report.md")
	inFence := false
	for line := range strings.Lines(md) {
		if strings.HasPrefix(line, "```") {
			inFence = !inFence
		} else if !inFence && (markup.MatchString(codeSpan.ReplaceAllString(line, ""))) {
			t.Errorf("unescaped line %q", line)
		} else if !inFence && strings.HasPrefix(line, "# heading") {
			t.Errorf("a command left its fence: %q", line)
		}
	}
	for _, name := range listing(t, dir) {
		if strings.ContainsAny(name, "<>|`\"\x1b \n") {
			t.Errorf("file name %q", name)
		}
	}
}

func TestReportFolderIsReplacedFileByFile(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{"run.db": "mine", "report.md": "old"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	in := fixtureInput()
	in.Series, in.Sentinels = nil, nil
	for range 2 {
		if err := Write(context.Background(), dir, in, []Image{PNG}); err != nil {
			t.Fatal(err)
		}
	}
	if got := read(t, dir, "run.db"); got != "mine" {
		t.Errorf("run.db is %q", got)
	}
	if got := read(t, dir, "report.md"); got == "old" {
		t.Error("report.md was not replaced")
	}
	for _, name := range listing(t, dir) {
		if strings.HasPrefix(name, ".") {
			t.Errorf("%s was left behind", name)
		}
	}
}

func TestReportFolderFailsWhole(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	fresh := filepath.Join(t.TempDir(), "report")
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	for _, tc := range []struct {
		name, dir string
		ctx       context.Context
		images    []Image
	}{
		{"a file in the way", file, context.Background(), nil},
		{"a file as parent", filepath.Join(file, "sub", "report"), context.Background(), nil},
		{"interrupted", fresh, ended, Images()},
		{"an unknown image format", fresh, context.Background(), []Image{"gif"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			err := Write(tc.ctx, tc.dir, fixtureInput(), tc.images)
			if err == nil || !strings.Contains(err.Error(), tc.dir) {
				t.Errorf("error %v does not name the folder", err)
			}
			if _, err := os.Stat(fresh); err == nil {
				t.Error("the folder appeared")
			}
			if left, _ := filepath.Glob(filepath.Join(filepath.Dir(fresh), "*")); len(left) > 0 {
				t.Errorf("left behind: %v", left)
			}
		})
	}
}

func TestReportOfLittle(t *testing.T) {
	for name, in := range map[string]Input{
		"nothing": {},
		"imported": {Meta: results.Meta{Source: "a.csv"},
			Series: []results.Series{{Key: results.SeriesKey{Device: "GPU", Subject: kernels.Product(kernels.FP16, 1, 1)}}}},
		"invalid": {Audit: &rules.Audit{Invalid: "the sentinels drifted by 12 %"}},
	} {
		dir := filepath.Join(t.TempDir(), "report")
		if err := Write(context.Background(), dir, in, []Image{PDF}); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if md := read(t, dir, "report.md"); strings.Contains(md, "plots/") {
			t.Errorf("%s: report.md shows a PDF as a picture", name)
		}
	}
}

// report.md must list the first findings and say where the others are.
func TestManyFindingsAreFolded(t *testing.T) {
	in := fixtureInput()
	for i := range 300 {
		f := in.Audit.Findings[0]
		f.FromM, f.ToM, f.WorstM = 1000+i, 1000+i, 1000+i
		f.Explanation = strings.Repeat("the library chose ampere_fp16_s16816gemm_fp16_128x64_ldg8_f2f_nn ", 6)
		in.Audit.Findings = append(in.Audit.Findings, f)
		in.Splits.Splits = append(in.Splits.Splits, remedy.Row{Series: fixtureKey, Remedy: fixtureRemedy()})
	}
	var b bytes.Buffer
	if err := newPage(in, nil).markdown(&b, nil); err != nil {
		t.Fatal(err)
	}
	md := b.String()
	if n := strings.Count(md, "\n| confirmed"); n > pageFindings {
		t.Errorf("%d findings are listed", n)
	}
	if !strings.Contains(md, "index.html shows the rest. All 303 findings: findings.json") {
		t.Error("the page does not say where the rest is")
	}
	if len(md) > 20<<10 {
		t.Errorf("%d bytes of report.md, which is read in a pull request", len(md))
	}
}
