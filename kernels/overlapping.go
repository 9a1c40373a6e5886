package kernels

// Overlapping is the name of auto in stream launches on a GPU where another process has kernels: each launch may begin
// while the one before drains. All other kernels run there one after the other, in graphs, auto among them.
const Overlapping = "auto-overlap"

// Peers reports whether one kernel may be judged by another's times, or replace it. [Overlapping] has no peers:
// engines run graphs one launch after the other.
func Peers(a, b string) bool { return a == b || a != Overlapping && b != Overlapping }

// Comparable reports whether times of two kernels may be set side by side on request: those of peers, and what
// overlap is worth to auto.
func Comparable(a, b string) bool {
	return Peers(a, b) || min(a, b) == "auto" && max(a, b) == Overlapping
}
