package health

import (
	"strings"
	"testing"
	"testing/fstest"
	"time"
)

func TestResolutionIsGraded(t *testing.T) {
	r := Report{Findings: []Finding{{"load", Warning, "", ""}, {"clock", OK, "", ""}}}
	for share, want := range map[float64]Severity{0.01: OK, 0.08: Note, 0.3: Warning} {
		f := Resolution(share, "words", share > 0.2)
		if f.Severity != want || (f.Hint == "") != (want == OK) || strings.Contains(f.Seen, "delays") != (share > 0.2) {
			t.Errorf("%g: %+v, expected %s", share, f, want)
		}
		r.Add(f)
	}
	if r.Count(Warning) != 2 || r.Findings[len(r.Findings)-1].Severity != OK || r.Findings[1].Severity != Warning {
		t.Errorf("the findings are not in order: %+v", r.Findings)
	}
}

// A load of 5.3 on two CPUs is a warning even if no process runs at the moment; a load of 1.3 is not.
func TestMoreLoadThanCPUs(t *testing.T) {
	for load, want := range map[string]Severity{"5.30": Warning, "1.30": Note, "0.20": OK} {
		stat := func(idle string) *fstest.MapFile {
			return &fstest.MapFile{Data: []byte("cpu 100 0 0 " + idle +
				" 0 0 0 0 0 0\ncpu0 50 0 0 1 0 0 0 0 0 0\ncpu1 50 0 0 1 0 0 0 0 0 0\n")}
		}
		files := fstest.MapFS{"proc/stat": stat("1000"), "proc/loadavg": {Data: []byte(load + " 1.00 1.00 1/1 1\n")}}
		found := Check(Source{Files: files, Wait: func(time.Duration) { files["proc/stat"] = stat("1060") }})
		seen := false
		for _, f := range found.Findings {
			if f.Check == "load" {
				if seen = true; f.Severity != want {
					t.Errorf("load %s: %+v, expected %s", load, f, want)
				}
			}
		}
		if !seen {
			t.Errorf("load %s: nothing is said of it", load)
		}
	}
}
