//go:build browser

package report

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	cdppage "github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/results"
	"github.com/gemmaudit/gemmaudit/rules"
	"github.com/gemmaudit/gemmaudit/rules/cause"
	"github.com/gemmaudit/gemmaudit/rules/infer"
)

// chromiumRequired names the environment variable that makes a missing Chromium a failure.
const chromiumRequired = "GEMMAUDIT_CHROMIUM_REQUIRED"

const browserLimit = 3 * time.Minute

// startBrowser opens a Chromium shared by all tabs of a test. Without Chromium it skips the test.
func startBrowser(t testing.TB) context.Context {
	t.Helper()
	program := ""
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if found, err := exec.LookPath(name); err == nil {
			program = found
			break
		}
	}
	if program == "" {
		if os.Getenv(chromiumRequired) != "" {
			t.Fatalf("Chromium is not installed, and %s is set", chromiumRequired)
		}
		t.Skip("Chromium is not installed (Debian's package chromium): what a browser makes of the page is not looked at")
	}
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(program), chromedp.NoSandbox, chromedp.DisableGPU,
		chromedp.WindowSize(1400, 1000),
		chromedp.Flag("force-color-profile", "srgb"), chromedp.WSURLReadTimeout(time.Minute))
	ctx, cancel := chromedp.NewExecAllocator(context.Background(), options...)
	t.Cleanup(cancel)
	ctx, end := context.WithTimeout(ctx, browserLimit)
	t.Cleanup(end)
	ctx, closed := chromedp.NewContext(ctx)
	t.Cleanup(closed)
	if err := chromedp.Run(ctx); err != nil {
		t.Fatalf("start %s: %v", program, err)
	}
	return ctx
}

type tab struct {
	t   testing.TB
	ctx context.Context
	url string

	mu  sync.Mutex
	bad []string
}

func open(t testing.TB, browser context.Context, url string) *tab {
	t.Helper()
	ctx, cancel := chromedp.NewContext(browser)
	t.Cleanup(cancel)
	b := &tab{t: t, ctx: ctx, url: url}
	own, _, _ := strings.Cut(url, "#")
	chromedp.ListenTarget(ctx, func(event any) {
		switch e := event.(type) {
		case *runtime.EventConsoleAPICalled:
			for _, a := range e.Args {
				b.note("console %s: %s %s", e.Type, a.Value, a.Description)
			}
		case *runtime.EventExceptionThrown:
			b.note("exception: %s", e.ExceptionDetails.Error())
		case *log.EventEntryAdded:
			b.note("log: %s %s", e.Entry.Text, e.Entry.URL)
		case *network.EventRequestWillBeSent:
			if to, _, _ := strings.Cut(e.Request.URL, "#"); to != own && !strings.HasPrefix(to, "blob:null/") {
				b.note("request of %s", e.Request.URL)
			}
		case *cdppage.EventJavascriptDialogOpening:
			b.note("dialog: %s", e.Message)
			go chromedp.Run(ctx, cdppage.HandleJavaScriptDialog(true))
		}
	})
	// Chromium draws no frames for a tab in the background.
	b.run(network.Enable(), log.Enable(), runtime.Enable(), chromedp.Navigate(url), cdppage.BringToFront())
	return b
}

func (b *tab) note(format string, args ...any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.bad = append(b.bad, fmt.Sprintf(format, args...))
}

func (b *tab) run(actions ...chromedp.Action) {
	b.t.Helper()
	if err := chromedp.Run(b.ctx, actions...); err != nil {
		b.t.Fatal(err)
	}
}

func value[T any](b *tab, expression string) T {
	b.t.Helper()
	var v T
	if err := chromedp.Run(b.ctx, chromedp.Evaluate(expression, &v,
		func(p *runtime.EvaluateParams) *runtime.EvaluateParams { return p.WithAwaitPromise(true) })); err != nil {
		b.t.Fatalf("%s: %v", expression, err)
	}
	return v
}

func (b *tab) holds(expression string) {
	b.t.Helper()
	if !value[bool](b, expression) {
		b.t.Errorf("not so: %s", expression)
	}
}

func (b *tab) quiet() {
	b.t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, s := range b.bad {
		b.t.Error(s)
	}
	b.bad = nil
}

func (b *tab) heatAt(series, m int) (x, y float64) {
	b.t.Helper()
	at := value[[]float64](b, fmt.Sprintf(`(async () => {
		heat.scrollIntoView({block: 'center'});
		await new Promise(done => setTimeout(done, 50)); // a tip goes when the page scrolls
		return [heat.getBoundingClientRect().left + heatMap.axis.at(%d), heat.getBoundingClientRect().top + heatMap.top + (%d + 0.5) * `+
		`heatMap.line];
	})()`, m, series))
	return at[0], at[1]
}

// hostileInput is fixtureInput with markup in every name that a file can supply.
func hostileInput() Input {
	in := fixtureInput()
	name := "</script><script>alert(1)</script><img src=x onerror=alert(2)>" + hostile
	in.Meta.Fingerprint.Devices[0].Name, in.Meta.Command, in.Run = name, name, name
	in.Series[0].Key.Kernel, in.Audit.Series[0].Key.Kernel = name, name
	for i := range in.Audit.Findings {
		f := &in.Audit.Findings[i]
		f.Series.Kernel, f.Reproduce, f.Waiver, f.Explanation, f.ID, f.Reference = name, name, name, name, name+f.ID, name
		f.Rule, f.Cause = rules.Rule(string(f.Rule)+name), cause.Kind(name)
	}
	for i := range in.Splits.Splits {
		in.Splits.Splits[i].Series.Kernel = name
	}
	for i := range in.Series[0].Rows {
		r := &in.Series[0].Rows[i]
		r.Case.Label = name
		for k := range r.Samples {
			r.Samples[k].Throttle, r.Samples[k].Disturbance = kernels.Throttle(name), name
		}
	}
	in.Notes = []string{name}
	return answered(in)
}

func writePage(t testing.TB, in Input) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "index.html")
	if err := os.WriteFile(path, []byte(pageOf(t, in)), 0o600); err != nil {
		t.Fatal(err)
	}
	return "file://" + path
}

func TestPageInBrowser(t *testing.T) {
	if testing.Short() {
		t.Skip("a browser is started")
	}
	browser := startBrowser(t)
	axe, err := os.ReadFile("testdata/axe/axe.min.js")
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		name string
		in   Input
	}{{"plain", executed(fixtureInput())}, {"hostile", executed(hostileInput())}} {
		t.Run(tc.name, func(t *testing.T) {
			url := writePage(t, tc.in)
			b := open(t, browser, url)
			b.holds(`document.querySelectorAll('#findings tbody tr').length === 3`)
			b.holds(`document.querySelectorAll('#lines canvas').length === 1 && heat.getContext('2d').getImageData(heat.width / 2, ` +
				`heat.height / 3, 1, 1).data[3] === 255`)
			b.holds(`document.querySelectorAll('a, img, iframe, object, [onerror], [onclick]').length === 0`)
			b.holds(`document.querySelectorAll('.problem svg .curve').length > 0 && linePlot.axes[0]._values.every(v => /^\d+$/.test(v))`)
			b.run(chromedp.Click(".problem .copy"))
			b.holds(`new Promise(done => { const wait = () => { const text = document.querySelector('.problem .copy').textContent; if ` +
				`(text === 'Copy') setTimeout(wait, 20); else done(text === 'Copied'); }; wait(); })`)
			b.quiet()

			x, y := b.heatAt(0, 320)
			b.run(input.DispatchMouseEvent(input.MouseMoved, x, y))
			b.holds(`!tip.hidden && /m 320/.test(tip.textContent) && /time /.test(tip.textContent) && /clock 3090 ` +
				`MHz/.test(tip.textContent) && /3 samples/.test(tip.textContent) && /anomalous/.test(tip.textContent)`)

			// Drag over the overview to zoom.
			right, _ := b.heatAt(0, 500)
			left, y := b.heatAt(0, 200)
			b.run(input.DispatchMouseEvent(input.MousePressed, left, y).WithButton(input.Left).WithButtons(1).WithClickCount(1),
				input.DispatchMouseEvent(input.MouseMoved, (left+right)/2, y).WithButton(input.Left).WithButtons(1),
				input.DispatchMouseEvent(input.MouseMoved, right, y).WithButton(input.Left).WithButtons(1),
				input.DispatchMouseEvent(input.MouseReleased, right, y).WithButton(input.Left).WithClickCount(1))
			b.holds(`Math.abs(state.from - 200) < 4 && Math.abs(state.to - 500) < 4 && /from=\d+/.test(location.hash)`)
			b.holds(`linePlot.data[0].every(m => m >= state.from && m <= state.to) && linePlot.data[0].includes(320)`)

			// Filter, sort, and click through to a card and to its row's samples.
			b.run(chromedp.SetValue("#filter-status", "confirmed"),
				chromedp.Evaluate(`document.getElementById('filter-status').dispatchEvent(new Event('change'))`, nil))
			b.holds(`document.querySelectorAll('#findings tbody tr').length === 1 && /1 of ` +
				`3/.test(document.getElementById('found-count').textContent)`)
			b.run(chromedp.Click("#findings tbody button.open"))
			b.holds(`/remedy/.test(document.querySelector('.card dl').textContent) && /64\+256/.test(document.querySelector('.card ` +
				`dl').textContent) && /it pays/.test(document.querySelector('.card').textContent)`)
			b.holds(`document.querySelector('.card code') !== null && document.querySelector('.card canvas').width > 0`)
			b.run(chromedp.Click(`//tr[@class="card"]//button[starts-with(., "Samples")]`, chromedp.BySearch))
			b.holds(`!document.getElementById('row').hidden && document.querySelectorAll('#times canvas').length === 2 && /3 samples ` +
				`over time, with clock/.test(document.getElementById('times-caption').textContent)`)
			b.holds(`/direct 12, 64\+256 12/.test(document.getElementById('spread-caption').textContent)`)
			b.run(chromedp.SetValue("#filter-status", ""),
				chromedp.Evaluate(`document.getElementById('filter-status').dispatchEvent(new Event('change'))`, nil))
			b.run(chromedp.Click(`#findings th[data-key="loss"] button`))
			b.holds(`state.sort === 'loss' && document.querySelector('#findings th[data-key="loss"]').getAttribute('aria-sort') === ` +
				`'descending'`)

			// A link must restore the same view.
			const seen = `JSON.stringify([state, linePlot.data, document.getElementById('findings').textContent, ` +
				`document.getElementById('row').textContent, heat.toDataURL().length])`
			again := open(t, browser, value[string](b, `location.href`))
			if a, c := value[string](b, seen), value[string](again, seen); a != c {
				t.Errorf("the link shows\n%.600s\nnot\n%.600s", c, a)
			}
			again.quiet()
			b.run(cdppage.BringToFront())

			// Keys alone.
			b.run(chromedp.Focus("#heat"), chromedp.KeyEvent("\u001b")) // Escape
			b.holds(`state.from === range.from && state.to === range.to`)
			b.run(chromedp.Evaluate(`change({row: ''}); heatMap.cursor = null`, nil), chromedp.Evaluate(`heat.focus()`, nil),
				input.DispatchKeyEvent(input.KeyDown).WithKey("ArrowRight").WithCode("ArrowRight"),
				input.DispatchKeyEvent(input.KeyDown).WithKey("Enter").WithCode("Enter"))
			b.holds(`!document.getElementById('row').hidden && document.activeElement.id === 'row-heading' && /m ` +
				`128/.test(document.getElementById('said').textContent)`)

			// Exported data must equal the input.
			b.holds(`rowsAsCSV().length === 1 + 16 && samplesAsCSV().length === 1 + 42`)

			for _, look := range []struct {
				name   string
				width  int64
				scheme string
			}{{"light", 1400, "light"}, {"dark", 1400, "dark"}, {"narrow", 400, "light"}} {
				b.run(emulation.SetDeviceMetricsOverride(look.width, 900, 1, false),
					emulation.SetEmulatedMedia().WithFeatures([]*emulation.MediaFeature{{Name: "prefers-color-scheme",
						Value: look.scheme}}))
				b.run(chromedp.Evaluate(string(axe), nil))
				value[bool](b, `new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => done(true))))`)
				if wide := value[string](b,
					`document.documentElement.scrollWidth <= window.innerWidth ? '' : [...document.querySelectorAll('main *, header `+
						`*')].filter(e => e.getBoundingClientRect().right > window.innerWidth && !e.closest('.scroll')).map(e => `+
						`e.outerHTML.slice(0, 80)).join(' ')`); wide != "" {
					t.Errorf("%s: wider than the window: %.600s", look.name, wide)
				}
				if tc.name == "plain" {
					if wide := value[string](b,
						`[...document.querySelectorAll('.scroll, .command pre')].filter(e => e.scrollWidth > e.clientWidth + 1).map(e => `+
							`[e.outerHTML.slice(0, 90), e.scrollWidth, e.clientWidth].join(' ')).join('; ')`); wide != "" {
						t.Errorf("%s: scrolls sideways: %s", look.name, wide)
					}
				}
				violations := value[string](b,
					`axe.run(document).then(r => r.passes.length < 20 ? 'few rules ran' : JSON.stringify(r.violations.map(v => v.id + ': `+
						`' + v.nodes.map(n => n.html.slice(0, 160) + ' ' + n.any.map(a => a.message).join()).slice(0, 3).join(' | '))))`)
				if violations != "[]" {
					t.Errorf("%s: %s", look.name, violations)
				}
			}

			// In print every table must fit the page with all its columns.
			b.run(emulation.SetDeviceMetricsOverride(1032, 700, 1, false), emulation.SetEmulatedMedia().WithMedia("print"),
				chromedp.Evaluate(`window.dispatchEvent(new Event('beforeprint'))`, nil))
			wide := value[string](b,
				`JSON.stringify([...document.querySelectorAll('details')].map(d => d.open = true) && [...document.querySelectorAll('th, `+
					`td')].filter(c => { const r = c.getBoundingClientRect(); return r.width === 0 || r.right > 1033 || c.scrollWidth > `+
					`c.clientWidth + 1; }).map(c => c.textContent.slice(0, 60)).slice(0, 5))`)
			if wide != "[]" {
				t.Errorf("cells that the paper has not: %s", wide)
			}
			b.holds(`document.querySelectorAll('#findings thead th').length === 9`)
			var pdf []byte
			b.run(chromedp.ActionFunc(func(ctx context.Context) (err error) {
				pdf, _, err = cdppage.PrintToPDF().WithPreferCSSPageSize(true).Do(ctx)
				return err
			}))
			if !strings.HasPrefix(string(pdf), "%PDF-") || len(pdf) < 20_000 {
				t.Errorf("the PDF has %d bytes", len(pdf))
			}
			b.quiet()
		})
	}
	t.Run("little", func(t *testing.T) {
		for name, in := range map[string]Input{
			"nothing": {},
			"empty " +
				"series": {Series: []results.Series{{Key: results.SeriesKey{Device: "GPU", Subject: kernels.Product(kernels.FP16, 1, 1)}}}},
			"not judged": {Series: fixtureSeries()},
		} {
			b := open(t, browser, writePage(t, in))
			b.holds(`/There are no findings/.test(document.getElementById('found-count').textContent)`)
			b.quiet()
			if t.Failed() {
				t.Fatal(name)
			}
		}
	})
	t.Run("diff", func(t *testing.T) {
		in := DiffInput{Diff: fixtureDiff(), A: infer.Data{Series: fixtureSeries()}, B: infer.Data{Series: fixtureSeries()}}
		in.Diff.Series[0].InA = fixtureKey
		dir := t.TempDir()
		if err := WriteDiffFolder(context.Background(), dir, in); err != nil {
			t.Fatal(err)
		}
		if got := strings.Join(listing(t, dir), " "); got != "diff.json index.html report.md" {
			t.Errorf("the folder has %s", got)
		}
		b := open(t, browser, "file://"+filepath.Join(dir, "index.html")+"#row=0.128")
		b.holds(`/^slower|new$/.test(document.querySelector('#findings tbody td').textContent) && state.sort === 'change' && ` +
			`data.findings[0].change === 'new'`)
		b.holds(`linePlot.data.length === 6 && linePlot.data[1][1] > 0 && linePlot.data[5][1] / linePlot.data[1][1] > 1.09 && ` +
			`linePlot.data[5][1] / linePlot.data[1][1] < 1.11`)
		b.holds(`/6 samples over time/.test(document.getElementById('times-caption').textContent) && /A 3, B ` +
			`3/.test(document.getElementById('spread-caption').textContent)`)
		x, y := b.heatAt(0, 128)
		b.run(input.DispatchMouseEvent(input.MouseMoved, x, y))
		b.holds(`/B ÷ A 1.1 .*slower/.test(tip.textContent)`)
		b.run(chromedp.Evaluate(string(axe), nil))
		if violations := value[string](b, `axe.run(document).then(r => JSON.stringify(r.violations.map(v => v.id)))`); violations != "[]" {
			t.Error(violations)
		}
		b.quiet()
	})
	t.Run("quantiles", func(t *testing.T) {
		b := open(t, browser, writePage(t, manySamples(3, 800, 420)))
		m := value[int](b, `ms[column('kept').findIndex((k, i) => k === 0 && column('samples')[i] > 0)]`)
		b.run(chromedp.Evaluate(fmt.Sprintf(`change({row: '0.%d'})`, m), nil))
		b.holds(`/only their quantiles/.test(document.getElementById('times-caption').textContent) && ` +
			`!document.getElementById('spread-canvas').hidden`)
		b.holds(`/of 1008000 samples: those of rows with findings/.test(document.getElementById('kept').textContent)`)
		b.quiet()
	})
}

// BenchmarkPage opens a page of 50 series of 2048 rows with 9 samples each, and moves the pointer over it. It
// reports the file size in MB, the ms until the page is drawn, and the median, 95th percentile and maximum frame
// time while the pointer moves.
func BenchmarkPage(b *testing.B) {
	browser := startBrowser(b)
	url := writePage(b, manySamples(50, 2048, 9))
	info, err := os.Stat(strings.TrimPrefix(url, "file://"))
	if err != nil {
		b.Fatal(err)
	}
	var opened float64
	var frames []float64
	for b.Loop() {
		page := open(b, browser, url)
		opened += value[float64](page, `Math.max(...performance.getEntriesByType('navigation').map(n => n.loadEventEnd || n.domComplete))`)
		var times struct{ Heat, Lines []float64 }
		text := value[string](page, `(async () => {
			const next = () => new Promise(done => requestAnimationFrame(done));
			const over = async (target, box) => {
				const spent = [];
				for (let i = 0; i < 60; i++) {
					await next();
					const at = {bubbles: true, clientX: box.left + 250 + i * (box.width - 300) / 60, clientY: box.top + box.height / 3 + `+
			`i, pointerId: 1};
					const from = performance.now();
					target.dispatchEvent(new PointerEvent('pointermove', at));
					target.dispatchEvent(new MouseEvent('mousemove', at));
					document.body.offsetHeight;
					spent.push(performance.now() - from);
				}
				return spent;
			};
			const heatTimes = await over(heat, heat.getBoundingClientRect());
			return JSON.stringify({Heat: heatTimes, Lines: await over(linePlot.over, linePlot.over.getBoundingClientRect())});
		})()`)
		if err := json.Unmarshal([]byte(text), &times); err != nil {
			b.Fatal(err)
		}
		frames = append(append(frames, times.Heat...), times.Lines...)
		page.quiet()
	}
	b.ReportMetric(float64(info.Size())/1e6, "MB")
	b.ReportMetric(opened/float64(b.N), "ms-to-open")
	slices.Sort(frames)
	b.ReportMetric(frames[len(frames)/2], "ms-a-frame")
	b.ReportMetric(frames[len(frames)*95/100], "ms-p95-frame")
	b.ReportMetric(frames[len(frames)-1], "ms-longest-frame")
}
