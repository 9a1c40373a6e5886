package hopper

import (
	"testing"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/cudatest"
)

// The last tile ends with the matrix if that gives the same bits, and begins with it if it is larger.
func TestLastStart(t *testing.T) {
	p := cudatest.Normalized(t, 300, 1000, 4096, kernels.BF16)
	odd := cudatest.Normalized(t, 300, 1001, 4096, kernels.BF16)
	const never = 1<<31 - 1
	whole := smallMChoice{smallMTile: smallMTile{64, 128}, tiles: 48, clusters: 48, clusterRows: 1, clusterTokens: 1}
	even, uneven := whole, whole
	even.streamed, even.clusters = 48, 96
	uneven.streamed, uneven.clusters = 48, 132
	for _, c := range []struct {
		choice       smallMChoice
		task         kernels.Task
		rows, tokens int
	}{
		{whole, p, 936, 172},
		{even, p, 936, 172},
		{uneven, p, never, never},
		{whole, odd, never, 172}, // C is stored in 16 bytes
	} {
		rows := lastStart(c.task.N, c.choice.rows, c.choice.complete(c.task))
		tokens := lastStart(c.task.M, c.choice.tokens, c.choice.whole())
		if rows != c.rows || tokens != c.tokens {
			t.Errorf("%s, n %d: rows %d, tokens %d, expected %d and %d", c.choice.label(), c.task.N, rows, tokens, c.rows, c.tokens)
		}
	}
	if got := lastStart(5, 128, true); got != 0 {
		t.Errorf("a matrix of 5 rows begins at %d", got)
	}
	wide := hopperChoice{rowTiles: 4, colTiles: 5, clusters: 132, split: 12, hopperTile: hopperTile{rows: 128, cols: 128}}
	if !wide.apart() {
		t.Error("tiles after split ones count as alike")
	}
}
