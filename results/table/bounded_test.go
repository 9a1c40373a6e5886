package table_test

import (
	"runtime"
	"strings"
	"testing"

	"github.com/gemmaudit/gemmaudit/results/table"
)

// A small table must not decode to much memory.
func TestTableOutOfProportion(t *testing.T) {
	const length = 3 << 20
	many := func(s string) string { return "[" + strings.Repeat(s+",", length/(len(s)+1)) + s + "]" }
	series := func(more string) string {
		return `{"kernel":"tiled","dtype":"fp32","layout":"kn","n":1,"k":1,"default":{"kind":"direct"},` + more + `}`
	}
	for name, list := range map[string]string{
		"series":    many("{}"),
		"no series": many("null"),
		"intervals": "[" + series(`"intervals":`+many("{}")) + "]",
		"proofs":    "[" + series(`"intervals":[{"from":1,"to":9,"action":{},"proofs":`+many("null")+`}]`) + "]",
		"libraries": `[],"validators":{"features":` + many(`""`) + "}",
	} {
		for _, schema := range []string{"v1", "v2", "v3"} {
			text := []byte(`{"schema":"gemmaudit/table/` + schema + `","created":"2024-01-01T00:00:00Z","series":` + list + `}`)
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			_, err := table.Parse(text)
			runtime.ReadMemStats(&after)
			if got := after.TotalAlloc - before.TotalAlloc; err == nil || len(err.Error()) > 2000 || got > 32*length {
				t.Errorf("%s, %s: %d bytes allocated for %d, error %.200v; expected a refusal", name, schema, got, len(text), err)
			}
		}
	}
}
