//go:build browser

package report

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/gemmaudit/gemmaudit/rules/fleet"
)

func TestFleetPageInBrowser(t *testing.T) {
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
		r    *fleet.Result
	}{{"plain", fixtureFleet(20)}, {"hostile", hostileFleet()}} {
		t.Run(tc.name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "page")
			if err := WriteFleetFolder(t.Context(), dir, tc.r); err != nil {
				t.Fatal(err)
			}
			if got := strings.Join(listing(t, dir), " "); got != "cards.csv fleet.json index.html report.md" {
				t.Errorf("the folder has %s", got)
			}
			b := open(t, browser, "file://"+filepath.Join(dir, "index.html"))
			b.holds(`map.rows.length === data.models[0].cards.length && map.cols.length === 3 && heat.height > 40`)
			b.holds(`document.querySelectorAll('a, img, iframe, object, [onerror], [onclick]').length === 0`)
			// The first cell of the first card is dark; its second one is empty.
			b.holds(`(() => { const d = window.devicePixelRatio, g = heat.getContext('2d'), at = x => g.getImageData((map.left + ` +
				`map.width * x) * d, (map.top + map.line / 2) * d, 1, 1).data;
				return at(1 / 6)[0] > at(1 / 6)[2] + 60 && at(1 / 6)[0] < 200; })()`)
			b.quiet()

			point := value[[]float64](b,
				`(() => { const r = heat.getBoundingClientRect(); return [r.left + map.left + map.width / 6, r.top + map.top + map.line `+
					`/ 2]; })()`)
			b.run(input.DispatchMouseEvent(input.MouseMoved, point[0], point[1]))
			b.holds(`!tip.hidden && /drain, thermal/.test(tip.textContent) && / m64/.test(tip.textContent) && /\+6.2 % against its ` +
				`peers/.test(tip.textContent) && /they take 30.10 us/.test(tip.textContent)`)
			b.run(chromedp.MouseClickXY(point[0], point[1]))
			b.holds(`!document.getElementById('card').hidden && /5.0 % .* slower than 9 ` +
				`peers/.test(document.getElementById('card-text').textContent) && location.hash.includes('card=')`)
			b.holds(`/\+6.2 %/.test(document.querySelector('#card-cases tbody tr').textContent) && ` +
				`document.querySelectorAll('#card-cases tbody tr').length === 2`)
			b.run(chromedp.Evaluate(`heat.focus()`, nil), chromedp.KeyEvent(kb.ArrowDown), chromedp.KeyEvent(kb.End),
				chromedp.KeyEvent(kb.Enter))
			b.holds(`document.activeElement.id === 'card-heading' && /watch/.test(document.getElementById('card-text').textContent) && ` +
				`/is chosen: watch/.test(document.getElementById('said').textContent)`)
			b.run(chromedp.Evaluate(`heat.focus()`, nil), chromedp.KeyEvent(kb.Escape))
			b.holds(`document.getElementById('card').hidden`)

			b.run(chromedp.Evaluate(`byId('shown').value = 'drain'; byId('shown').dispatchEvent(new Event('change'))`, nil))
			b.holds(`map.rows.length === 1 && location.hash.includes('shown=drain')`)
			b.run(chromedp.Evaluate(`byId('time').value = 'sustained'; byId('time').dispatchEvent(new Event('change'))`, nil))
			b.holds(`Math.abs(cell(0, 0) - Math.exp(0.12)) < 1e-3 && /sustained time/.test(byId('key').textContent)`)
			b.run(chromedp.Evaluate(`byId('cases').value = '0'; byId('cases').dispatchEvent(new Event('change'))`, nil))
			b.holds(`state.cases === '0' && map.cols.length === model().cases.filter(k => k.series === 0).length && cellsAsCSV().length ` +
				`=== 1 + map.cols.filter(c => !Number.isNaN(cell(0, c))).length`)
			b.run(chromedp.Evaluate(`location.hash = '#shown=none&order=loss&model=9&card=nobody'`, nil))
			b.holds(`state.shown === 'all' && state.order === 'loss' && state.model === '0' && map.rows[0] === 0`)

			// On a narrow screen only tables may overflow, and they scroll; host names must stay distinct.
			b.run(emulation.SetDeviceMetricsOverride(400, 800, 1, false))
			b.holds(`(async () => {
				for (let i = 0; i < 200 && map.left + map.width > 400; i++) await new Promise(done => setTimeout(done, 20)); // until it ` +
				`is drawn anew
				return document.documentElement.scrollWidth <= 400 && map.left + map.width <= 400 && [...document.querySelectorAll('body ` +
				`*')].every(e => e.closest('.scroll, #tip') || e.getBoundingClientRect().right <= 401);
			})()`)
			b.holds(`(() => { const g = heat.getContext('2d'), names = [8, 9, 10].map(i => 'gpu-node-00' + i + '.cluster.example.org ` +
				`cuda:0');
				return lineNames(g, names, 90).join() === '…008…,…009…,…0010…' && lineNames(g, names, 9000).join() === names.join() && ` +
				`lineNames(g, names.slice(1, 2), 90)[0] === names[1]; })()`)
			b.run(emulation.ClearDeviceMetricsOverride())

			for _, scheme := range []string{"light", "dark"} {
				b.run(emulation.SetEmulatedMedia().WithFeatures([]*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}),
					chromedp.Evaluate(string(axe), nil))
				if violations := value[string](b,
					`axe.run(document).then(r => JSON.stringify(r.violations.map(v => v.id)))`); violations != "[]" {
					t.Errorf("%s: %s", scheme, violations)
				}
			}
			b.quiet()
		})
	}
}
