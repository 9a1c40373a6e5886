package importing

import (
	"errors"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/gemmaudit/gemmaudit/kernels/regular"
	"github.com/gemmaudit/gemmaudit/results"
)

func TestReadPassTimes(t *testing.T) {
	for _, c := range []struct {
		name, text string
		want       []PassTime
	}{
		{"least", "m,seconds\n16,0.004\n", []PassTime{{M: 16, Seconds: 0.004, Count: 1}}},
		{"any order", " Seconds , M, high,low\n2e-3,64,3e-3,1e-3\n1e-3,16,,\n",
			[]PassTime{{M: 16, Seconds: 1e-3, Count: 1}, {M: 64, Seconds: 2e-3, Low: 1e-3, High: 3e-3, Count: 1}}},
		{"count", "m,seconds,count\n1,1,32\n", []PassTime{{M: 1, Seconds: 1, Count: 32}}},
	} {
		got, err := passTimesCSV.read("t.csv", strings.NewReader(c.text))
		if err != nil || !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: %v, %v; expected %v", c.name, got, err, c.want)
		}
	}
}

// Opening a named pipe would wait.
func TestPipesOfMsAreRefused(t *testing.T) {
	pipe := filepath.Join(t.TempDir(), "pipe.csv")
	must(t, unix.Mkfifo(pipe, 0o644))
	_, passTimes := ReadPassTimes(pipe)
	_, traffic := ReadTraffic(pipe)
	for name, err := range map[string]error{"pass times": passTimes, "traffic": traffic} {
		var refused *regular.Error
		if !errors.As(err, &refused) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestPassTimesRefused(t *testing.T) {
	for _, c := range []struct {
		text, want string
		line       int
	}{
		{"", "the file is empty", 0},
		{"m,seconds\n", "no line after the header", 0},
		{"1,2\n", "expected the columns m and seconds", 1},
		{"m,seconds,low\n1,2,1\n", "optionally low and high", 1},
		{"m,seconds,us\n1,2,1\n", `unknown columns "us"`, 1},
		{"m,seconds\n0,1\n", "is below 1", 2},
		{"m,seconds\n4194305,1\n", "is above 4194304", 2},
		{"m,seconds\n1,0\n", "is no time from 1e-09 to 86400 seconds", 2},
		{"m,seconds\n1,1e6\n", "is no time", 2},
		{"m,seconds\n1,x\n", "is not a number", 2},
		{"m,seconds\n1,1\n1,2\n", "is already in line 2", 3},
		{"m,seconds,low,high\n1,2,3,4\n", "column low: \"3\" is above seconds", 2},
		{"m,seconds,low,high\n1,2,1,1.5\n", "column high: \"1.5\" is below seconds", 2},
		{"m,seconds,low,high\n1,2,1,\n", "column high: the cell is missing", 2},
		{"m,seconds,count\n1,2,0\n", "is below 1", 2},
		{"m,seconds,count\n1,2,9999999\n", "is above 1048576", 2},
		{`{"m":1}`, "the file is JSON", 0},
	} {
		got, err := passTimesCSV.read("t.csv", strings.NewReader(c.text))
		var bad *Error
		if !errors.As(err, &bad) || !strings.Contains(err.Error(), c.want) || bad.Line != c.line && c.line > 0 {
			t.Errorf("%.40q: %v, %v; expected %q in line %d", c.text, got, err, c.want, c.line)
		}
	}
	if _, err := ReadPassTimes(t.TempDir() + "/absent.csv"); err == nil {
		t.Error("a file that is not there is read")
	}
}

// Accepted times must be usable in calculations; errors name their place.
func FuzzPassTimes(f *testing.F) {
	for _, s := range []string{"m,seconds\n16,0.004\n", "m,seconds,low,high,count\n1,2,1,3,4\n2,3,,,1\n", "m,seconds\n1,1e-12\n",
		"\ufeffm,seconds\r\n\"1\",\"2\"\r\n"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		got, err := passTimesCSV.read("t.csv", strings.NewReader(string(text)))
		var bad *Error
		if err != nil {
			if !errors.As(err, &bad) {
				t.Fatalf("%v is no import error", err)
			}
			return
		}
		for i, p := range got {
			if p.M < 1 || p.M > results.MaxM || i > 0 && p.M <= got[i-1].M || !(p.Seconds >= leastSeconds && p.Seconds <= mostSeconds) ||
				p.Count < 1 ||
				p.Low != 0 && !(p.Low <= p.Seconds && p.Seconds <= p.High) {
				t.Fatalf("%q is read as %+v", text, p)
			}
		}
	})
}
