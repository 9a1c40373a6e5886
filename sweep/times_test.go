package sweep

import (
	"reflect"
	"testing"
)

// TestTimesAdd: each of the times is summed with its like.
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
