package sweep

import (
	"reflect"
	"testing"
	"time"

	"github.com/gemmaudit/gemmaudit/kernels"
)

func TestTimesAdd(t *testing.T) {
	var a, b Times
	x, y := reflect.ValueOf(&a).Elem(), reflect.ValueOf(&b).Elem()
	for i := range x.NumField() {
		x.Field(i).SetFloat(float64(100 * (i + 1)))
		y.Field(i).SetFloat(float64(i + 1))
	}
	a.add(b)
	for i := range x.NumField() {
		if got, want := x.Field(i).Float(), float64(101*(i+1)); got != want {
			t.Errorf("%s is %v, expected %v", x.Type().Field(i).Name, got, want)
		}
	}
}

func TestEnergySpent(t *testing.T) {
	type silent struct{ kernels.EnergyMeter }
	start := time.Unix(1000, 0)
	for _, c := range []struct {
		name     string
		launches int
		seconds  float64
		mj       float64
		ok       bool
	}{{"apart", 10, 2, 4000, true}, {"at one time", 10, 0, 4000, false}, {"back in time", 10, -1, 4000, false},
		{"no launch", 0, 2, 4000, false}, {"no energy", 10, 2, 0, false}} {
		e := &energy{meter: silent{}, first: mark{mj: 100, launches: 5, at: start}}
		e.last = mark{100 + c.mj, 5 + c.launches, start.Add(time.Duration(c.seconds * 1e9))}
		mj, watts, ok := e.spent()
		if ok != c.ok || ok && (mj != 400 || watts != 2) {
			t.Errorf("%s: %g mJ, %g W, %v", c.name, mj, watts, ok)
		}
	}
}
