package importing

import (
	"errors"
	"math"
	"reflect"
	"strings"
	"testing"

	"github.com/gemmaudit/gemmaudit/results"
)

func TestReadTraffic(t *testing.T) {
	for _, c := range []struct {
		name, text string
		want       results.Traffic
	}{
		{"bare", "1,10\n8,2.5\n", results.Traffic{{M: 1, Weight: 10}, {M: 8, Weight: 2.5}}},
		{"header", "m,weight\n1,10\n", results.Traffic{{M: 1, Weight: 10}}},
		{"any order", " Weight , M \n3,512\n0,1\n1e3,64\n", results.Traffic{{M: 1, Weight: 0}, {M: 64, Weight: 1000}, {M: 512, Weight: 3}}},
		{"as spreadsheets write it", "\ufeffm,weight\r\n\"1\",\"2\"\r\n", results.Traffic{{M: 1, Weight: 2}}},
	} {
		loads, err := trafficCSV.read("m.csv", strings.NewReader(c.text))
		got := results.Traffic(loads)
		if err != nil || !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: %v, %v; expected %v", c.name, got, err, c.want)
		}
	}
}

func TestTrafficRefused(t *testing.T) {
	for _, c := range []struct {
		text, want string
		line       int
	}{
		{"", "the file is empty", 0},
		{"m,weight\n", "no line after the header", 0},
		{"m,count\n1,2\n", "expected the columns m and weight", 1},
		{"m,weight,m\n", "stands twice", 1},
		{"m,weight,kernel\n1,2,3\n", `unknown columns "kernel"`, 1},
		{"1,2,3\n", "3 cells, expected m,weight", 1},
		{"1\n", "1 cells, expected m,weight", 1},
		{"1,2\n2,1,7\n", "3 cells", 2},
		{"1,2\n2\n", "column weight: the cell is missing", 2},
		{"m,weight\n0,1\n", `column m: "0" is below 1`, 2},
		{"1,2\n-4,1\n", `column m: "-4" is below 1`, 2},
		{"1,2\n4194305,1\n", "is above 4194304", 2},
		{"1.5,2\n", "is not a whole number", 1},
		{"1,2\n2,x\n", "is not a number", 2},
		{"1,-2\n", "is negative", 1},
		{"1,NaN\n", "is not a finite number", 1},
		{"1,1e400\n", "is not a finite number", 1},
		{"1,1e16\n", "is above 1e+15", 1},
		{"1,2\n4,1\n1,3\n", "is already in line 1", 3},
		{"1,0\n2,0\n", "every weight is 0", 0},
		{"1,\"2\n", "extraneous or missing", 1},
		{`{"m":1}`, "the file is JSON", 0},
		{"1,2\n3," + strings.Repeat("4", maxRecordBytes+70000), "a line of more than", 2},
	} {
		loads, err := trafficCSV.read("m.csv", strings.NewReader(c.text))
		got := results.Traffic(loads)
		var bad *Error
		if !errors.As(err, &bad) || !strings.Contains(err.Error(), c.want) || bad.Line != c.line && c.line > 0 {
			t.Errorf("%.40q: %v, %v; expected %q in line %d", c.text, got, err, c.want, c.line)
		}
	}
	if _, err := ReadTraffic(t.TempDir() + "/absent.csv"); err == nil {
		t.Error("a file that is not there is read")
	}
}

func TestTrafficWeight(t *testing.T) {
	traffic := results.Traffic{{M: 4, Weight: 2}, {M: 8, Weight: 0}, {M: 16, Weight: 5}}
	for m, want := range map[int]float64{1: 0, 3: 0, 4: 2, 7: 2, 8: 0, 15: 0, 16: 5, 17: 0} {
		if got := traffic.Weight(m); got != want {
			t.Errorf("m%d has weight %g, expected %g", m, got, want)
		}
	}
	if got := (results.Traffic)(nil).Weight(7); got != 1 {
		t.Errorf("without traffic m7 has weight %g", got)
	}
	for _, bad := range []results.Traffic{{{M: 0, Weight: 1}}, {{M: 2, Weight: 1}, {M: 2, Weight: 1}}, {{M: 3, Weight: 1},
		{M: 2, Weight: 1}}, {{M: 1, Weight: -1}}, {{M: 1, Weight: math.NaN()}}, {{M: 1, Weight: 0}}, {{M: results.MaxM + 1, Weight: 1}}} {
		if bad.Validate() == nil {
			t.Errorf("%v is accepted", bad)
		}
	}
}

func FuzzTraffic(f *testing.F) {
	for _, s := range []string{"1,10\n8,2.5\n", "m,weight\n1,10\n", "weight,m\n3,512\n", "1,2\n1,2\n", "\ufeffm,weight\n", "1,\"2",
		"1,1e400"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		loads, err := trafficCSV.read("m.csv", strings.NewReader(string(text)))
		got := results.Traffic(loads)
		if err != nil {
			return
		}
		if err := got.Validate(); err != nil || len(got) == 0 {
			t.Fatalf("%q is read as %v: %v", text, got, err)
		}
		for _, l := range got {
			if got.Weight(l.M) != l.Weight {
				t.Fatalf("m%d has weight %g, expected %g", l.M, got.Weight(l.M), l.Weight)
			}
		}
	})
}
