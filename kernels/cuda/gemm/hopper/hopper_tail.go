package hopper

import "math"

// lastStart is where a tile begins at the latest. The last tile of an extent begins earlier, within the one
// before it, so that it ends with the matrix: TMA fills in absent rows so slowly that such a tile delays all
// others. Both tiles store the same bits where they overlap, if both add up alike.
func lastStart(extent, tile int, alike bool) int {
	if !alike {
		return math.MaxInt32
	}
	return max(0, extent-tile)
}
