package field

import "testing"

type part struct {
	Clock float64 `json:"clock_mhz,omitempty"`
}

type embedded struct {
	M int `json:"m"`
}

type record struct {
	embedded
	Kind  Kind    `json:"kind"`
	Count int     `json:"count,omitempty"`
	Part  *part   `json:"part,omitempty"`
	Share float64 `json:"share"`
}

func TestOf(t *testing.T) {
	fields := Of([]Field[*record]{{Name: "m"}, {Name: "kind"}, {Name: "count"}, {Name: "share"}, {Name: "clock", JSON: "part.clock_mhz"},
		{Name: "own", Value: func(r *record) any { return r.M + 1 }}})
	for _, c := range []struct {
		record record
		want   [6]any
	}{
		{record{}, [6]any{0, "", nil, 0.0, nil, 1}},
		{record{embedded{3}, Text, 2, &part{1500}, 0.5}, [6]any{3, "text", 2, 0.5, 1500.0, 4}},
		{record{Part: &part{}}, [6]any{0, "", nil, 0.0, nil, 1}},
	} {
		for i, f := range fields {
			if got := f.Value(&c.record); got != c.want[i] {
				t.Errorf("%s of %+v is %v, expected %v", f.Name, c.record, got, c.want[i])
			}
		}
	}
	defer func() {
		if recover() == nil {
			t.Error("a field that JSON does not have was taken")
		}
	}()
	Of([]Field[record]{{Name: "missing"}})
}
