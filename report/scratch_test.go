package report
import ("testing";"os";"strings"
"github.com/chromedp/chromedp";"github.com/chromedp/cdproto/emulation")
func TestScratchPrint(t *testing.T) {
	url := os.Getenv("SCRATCH"); if url == "" { t.Skip() }
	b := open(t, startBrowser(t), url)
	b.until(drawn)
	var shot []byte
	if strings.Contains(url, "print=1") {
	b.run(emulation.SetDeviceMetricsOverride(1032, 700, 1, false), emulation.SetEmulatedMedia().WithMedia("print"), chromedp.Evaluate(`window.dispatchEvent(new Event('beforeprint'))`, nil))
	} else { b.run(emulation.SetDeviceMetricsOverride(1400, 900, 1, false)) }
	b.run(chromedp.FullScreenshot(&shot, 90))
	os.WriteFile("/tmp/rep16/full.jpg", shot, 0o644)
	b.quiet()
}
