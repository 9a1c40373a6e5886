package kernels

import (
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestGroupRows(t *testing.T) {
	hash, err := RecordedRouting{Groups: 3, Rows: map[int][]int{7: {0, 5, 2}, 1: {1, 0, 0}}}.Register()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		dims Dims
		m    int
		want []int
		err  string
	}{
		{Dims{Groups: 4}, 10, []int{3, 3, 2, 2}, ""},
		{Dims{Groups: 4}, 2, []int{1, 1, 0, 0}, ""},
		{Dims{Groups: 4}, 0, []int{0, 0, 0, 0}, ""},
		// The draws are part of what a run measured: they never change.
		{Dims{Groups: 8, TopK: 2, Skew: 100, Draw: 1}, 64, []int{16, 12, 12, 4, 9, 5, 1, 5}, ""},
		{Dims{Groups: 8, TopK: 2, Draw: 1}, 64, []int{5, 9, 9, 6, 11, 9, 8, 7}, ""},
		{Dims{Groups: 8, TopK: 2, Skew: 100, Draw: 2}, 5, []int{2, 1, 0, 1, 0, 1, 0, 0}, ""},
		{Dims{Groups: 2, TopK: 2, Skew: 300, Draw: 9}, 5, []int{3, 2}, ""}, // both of each token
		{Dims{Groups: 3, Routing: hash}, 7, []int{0, 5, 2}, ""},
		{Dims{Groups: 3, Routing: hash}, 8, nil, "has no M 8"},
		{Dims{Groups: 4, Routing: hash}, 7, nil, "has 3 groups, expected 4"},
		{Dims{Groups: 3, Routing: hash + 1}, 7, nil, "not loaded"},
	} {
		s := Subject{Operation: GroupedGEMM, DType: BF16, Dims: c.dims}
		got, err := s.GroupRows(c.m)
		if !slices.Equal(got, c.want) || (err != nil) != (c.err != "") || err != nil && !strings.Contains(err.Error(), c.err) {
			t.Errorf("%v of %d: %v, %v; expected %v, %q", c.dims, c.m, got, err, c.want, c.err)
		}
	}
}

// Rows add up, each token has distinct groups, and more rows are those of fewer and further ones.
func TestGroupRowsProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := Subject{Operation: GroupedGEMM, DType: BF16, Dims: Dims{N: 1, K: 1, Groups: rapid.IntRange(1, 40).Draw(t, "groups")}}
		if rapid.Bool().Draw(t, "drawn") {
			s.TopK = rapid.IntRange(1, s.Groups).Draw(t, "topK")
			s.Skew, s.Draw = rapid.IntRange(0, MaxSkew).Draw(t, "skew"), rapid.IntRange(1, 1<<20).Draw(t, "draw")
		}
		if err := s.Validate(); err != nil {
			t.Fatal(err)
		}
		tokens := rapid.IntRange(0, 50).Draw(t, "tokens")
		m := tokens * max(1, s.TopK)
		rows, err := s.GroupRows(m)
		if err != nil {
			t.Fatal(err)
		}
		sum, idle := 0, 0
		for _, n := range rows {
			if sum += n; n == 0 {
				idle++
			}
			if s.Draw != 0 && n > tokens {
				t.Fatalf("a group has %d rows of %d tokens", n, tokens)
			}
		}
		if sum != m || s.ActiveGroups(m) != s.Groups-idle {
			t.Fatalf("%d rows of %d, %d active of %d with %d idle", sum, m, s.ActiveGroups(m), s.Groups, idle)
		}
		more, err := s.GroupRows(m + 1)
		if err != nil {
			t.Fatal(err)
		}
		for i := range rows {
			if more[i] < rows[i] {
				t.Fatalf("group %d has %d of %d rows, and %d of one more", i, rows[i], m, more[i])
			}
		}
	})
}

func TestRoutingRefused(t *testing.T) {
	for _, c := range []struct {
		dims Dims
		want string
	}{
		{Dims{Groups: 4, TopK: 5, Draw: 1}, "at most the 4 groups"},
		{Dims{Groups: 4, Skew: 100}, "skew 100 without draw"},
		{Dims{Groups: 4, Draw: 1}, "without top_k"},
		{Dims{Groups: 4, TopK: 1, Draw: 1, Skew: MaxSkew + 1}, "at most 1000"},
		{Dims{Groups: 4, TopK: 1, Draw: 1, Routing: 5}, "neither"},
		{Dims{Groups: MaxGroups + 1}, "at most 4096"},
		{Dims{}, "groups is 0"},
	} {
		c.dims.N, c.dims.K = 1, 1
		err := Subject{Operation: GroupedGEMM, DType: BF16, Dims: c.dims}.Validate()
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v, expected %q", c.dims, err, c.want)
		}
	}
	for _, c := range []struct {
		table RecordedRouting
		want  string
	}{
		{RecordedRouting{}, "0 groups"},
		{RecordedRouting{Groups: 2, Rows: map[int][]int{3: {1, 1}}}, "2 rows in all"},
		{RecordedRouting{Groups: 2, Rows: map[int][]int{3: {4, -1}}}, "group 0 has 4 rows"},
		{RecordedRouting{Groups: 3, Rows: map[int][]int{3: {1, 2}}}, "2 groups have 3 rows"},
	} {
		if _, err := c.table.Register(); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v, expected %q", c.table, err, c.want)
		}
	}
}
