package rules

import (
	"go/build"
	"slices"
	"strings"
	"testing"
)

// rooms are the packages below this one, and this one, each with a sentence; a room imports only rooms above it.
var rooms = []struct{ name, holds string }{
	{"stats", "holds the statistics that any package may use"},
	{"phrase", "writes numbers and names the way the sentences of findings print them"},
	{"change", "names how a time, or a finding, differs between two measurements"},
	{"search", "finds the cheapest way to write a size as a sum of measured sizes"},
	{"infer", "estimates the time of every row of a run"},
	{"cause", "explains why a row of a curve is slow"},
	{"cards", "compares the cards of one host"},
	{"synthetic", "makes up runs of machines whose true times are known, for tests of the rules"},
	{"", "holds the rules and the verdicts"},
	{"outcome", "decides how a command that gates ends"},
	{"baseline", "recognizes series and findings of an earlier run"},
	{"remedy", "searches what makes a row faster, and proves it"},
	{"triage", "sums up the time that a recorded workload loses"},
	{"diff", "compares two runs"},
	{"choose", "decides which rows a sweep measures next"},
	{"explain", "holds the meaning of every rule, cause, verdict and other word of the output"},
	{"history", "follows the times"},
	{"fleet", "compares cards of one model over many machines"},
	{"advice", "computes what an inference engine gains from other batch sizes"},
	{"problem", "turns the findings and remedies of a run into problems"},
	{"verdict", "concludes"},
	{"trust", "counts wrong verdicts"},
}

func TestRoomsImportUpwards(t *testing.T) {
	names := make([]string, len(rooms))
	for i, room := range rooms {
		names[i] = room.name
		p, err := build.ImportDir("./"+room.name, 0)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.HasPrefix(p.Doc, "Package "+p.Name+" "+room.holds) {
			t.Errorf("%s says %q, expected: %s", p.Name, p.Doc, room.holds)
		}
		for _, imported := range p.Imports {
			_, name, below := strings.Cut(imported, "/gemmaudit/rules")
			if below && !slices.Contains(names[:i], strings.TrimPrefix(name, "/")) {
				t.Errorf("%s imports %s", p.Name, imported)
			}
		}
	}
}
