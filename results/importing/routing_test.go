package importing

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/gemmaudit/gemmaudit/kernels"
)

func readRoutingText(t testing.TB, text string) (kernels.RecordedRouting, error) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "routing.csv")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return ReadRouting(path)
}

func TestReadRouting(t *testing.T) {
	for _, c := range []struct {
		name, text string
		want       kernels.RecordedRouting
	}{
		{"any order", "group,m,rows\n2,4,1\n0,4,3\n1,1,1\n",
			kernels.RecordedRouting{Groups: 3, Rows: map[int][]int{4: {3, 0, 1}, 1: {0, 1, 0}}}},
		{"an idle group at the end", "m,group,rows\n2,0,2\n2,3,0\n",
			kernels.RecordedRouting{Groups: 4, Rows: map[int][]int{2: {2, 0, 0, 0}}}},
	} {
		if got, err := readRoutingText(t, c.text); err != nil || !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: %v, %v; expected %v", c.name, got, err, c.want)
		}
	}
}

func TestRoutingRefused(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"", "is empty"},
		{"m,group,rows\n", "0 values of M"},
		{"m,group\n1,0\n", routingColumns},
		{"m,group,rows\n0,0,1\n", "below 1"},
		{"m,group,rows\n1,-1,1\n", "column group"},
		{"m,group,rows\n1,4096,1\n", "above 4095"},
		{"m,group,rows\n1,0,-1\n", "column rows"},
		{"m,group,rows\n1,0,1\n1,0,1\n", "in line 2"},
		{"m,group,rows\n3,0,1\n3,1,1\n", "2 rows in all"},
		{"m,group,rows\n1,0,2\n", "has 2 rows"},
		{"m,group,rows\n1,0,x\n", "whole number"},
	} {
		if _, err := readRoutingText(t, c.text); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: %v, expected %q", c.text, err, c.want)
		}
	}
}

// Whatever is read has rows that add up, and a hash by which it is found again.
func FuzzRouting(f *testing.F) {
	for _, text := range []string{
		"m,group,rows\n4,0,3\n4,2,1\n", "m,group,rows\n1,4095,1\n", "rows,m\n", "m,group,rows\n4194304,0,4194304\n",
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		got, err := readRoutingText(t, text)
		if err != nil {
			return
		}
		hash, err := got.Register()
		if err != nil {
			t.Fatalf("%v of %v", err, got)
		}
		dims := kernels.Dims{N: 1, K: 1, Groups: got.Groups, Routing: hash}
		s := kernels.Subject{Operation: kernels.GroupedGEMM, DType: kernels.BF16, Dims: dims}
		for _, m := range got.Ms() {
			if rows, err := s.GroupRows(m); err != nil || len(rows) != got.Groups {
				t.Fatalf("m %d: %v, %v", m, rows, err)
			}
		}
	})
}
