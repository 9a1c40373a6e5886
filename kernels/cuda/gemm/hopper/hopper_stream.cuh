// Which pieces of which tiles a cluster of either pipeline computes: stream-K.
#pragma once

// Cut says which tiles of a launch are cut along K: the first ones. Their steps of K form one
// line, of which every cluster takes a run of the same length, or one more.
struct Cut {
    int tiles;     // that are cut
    int run, rest; // all their steps ÷ clusters, and the remainder

    // runBegin is the first step of the line that a cluster has, or where it would begin.
    __device__ __forceinline__ int runBegin(int cluster, int clusters) const {
        return run * cluster + static_cast<int>(static_cast<unsigned>(rest * cluster) / static_cast<unsigned>(clusters));
    }
};

// Walk goes through the pieces of one cluster, the same for its producer and its consumers.
//
// A run is walked backwards: the tile of which it lacks the end comes first, so that its sums
// are there long before the tile's owner, who holds the end, asks for them. The owner waits
// only for runs before its own, which were started before it. Whole tiles come after.
struct Walk {
    int cluster, clusters, steps;
    int low, high; // what is left of the run
    int whole;     // the next whole tile
    int tiles;

    int tile, begin, end; // the current piece: steps [begin, end) of tile

    __device__ __forceinline__ Walk(const Cut &cut, int tiles, int steps, int cluster, int clusters)
        : cluster(cluster), clusters(clusters), steps(steps), low(cut.runBegin(cluster, clusters)), high(cut.runBegin(cluster + 1, clusters)),
          whole(cut.tiles + cluster), tiles(tiles) {}

    __device__ __forceinline__ bool next() {
        if (high > low) {
            tile = static_cast<unsigned>(high - 1) / static_cast<unsigned>(steps);
            const int base = tile * steps;
            begin = max(low - base, 0);
            end = high - base;
            high = base + begin;
            return true;
        }
        if (whole >= tiles) return false;
        tile = whole;
        begin = 0;
        end = steps;
        whole += clusters;
        return true;
    }
};
