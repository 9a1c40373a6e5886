package trust

import (
	"fmt"
	"slices"
	"strings"

	"github.com/gemmaudit/gemmaudit/kernels/simulated"
)

// Kind is a kind of noise on simulated machines.
type Kind struct {
	Name string `json:"name"`
	// Means describes it in a few words.
	Means string `json:"means"`

	disturbances    simulated.Disturbances
	waves, switches bool
	// inOrder measures each round in ascending M, with rests between the rounds, like some imported data.
	inOrder bool
	// infers lets the rules choose the measured rows, for a library with several tiles; untold does so
	// without the library's reported launches.
	infers, untold bool
	// mostOpen limits the share of marginal and undecided rows; 0 means no limit.
	mostOpen float64
	// finds requires that slow intervals of [PromisedDepth] are found.
	finds bool
}

// Kinds lists the kinds of noise, in print order.
func Kinds() []Kind {
	return []Kind{
		{Name: "quiet", Means: "noise of 0.2 %", disturbances: simulated.Disturbances{Sigma: 0.002}, mostOpen: MostOpenQuiet, finds: true},
		{Name: "noise1", Means: "noise of 1 %", disturbances: simulated.Disturbances{Sigma: 0.01}, mostOpen: MostOpenQuiet, finds: true},
		{Name: "noise3", Means: "noise of 3 %", disturbances: simulated.Disturbances{Sigma: 0.03}, mostOpen: MostOpen},
		{Name: "clock", Means: "a clock that varies at the power limit, and noise of 0.2 %",
			disturbances: simulated.Disturbances{Sigma: 0.002, PowerLimited: true}, mostOpen: MostOpen},
		{Name: "hidden", Means: "the same clock, not reported by the device",
			disturbances: simulated.Disturbances{Sigma: 0.002, PowerLimited: true, ClockUntold: true}, mostOpen: MostOpen},
		{Name: "tails", Means: "heavy tails: Student's t with 3 degrees of freedom, 1 %, and 3 % outliers",
			disturbances: simulated.Disturbances{Sigma: 0.01, HeavyTailed: true, Stray: 0.03}, mostOpen: MostOpen},
		{Name: "delays", Means: "one-sided: a floor with noise of 1 %, and 40 % of the blocks delayed by 15 % on average",
			disturbances: simulated.Disturbances{Sigma: 0.01, Delayed: 0.4, Delay: 0.15}, mostOpen: MostOpen},
		{Name: "spells", Means: "one-sided: the same delays of half of the blocks, in periods of 30 ms",
			disturbances: simulated.Disturbances{Sigma: 0.01, Delayed: 0.5, Delay: 0.15, Spell: 0.03}, mostOpen: MostOpen},
		{Name: "modes", Means: "6 % of the rows are bimodal, 3 to 12 % apart; noise of 0.5 %",
			disturbances: simulated.Disturbances{Sigma: 0.005, Modes: 0.06}, mostOpen: MostOpen},
		{Name: "drift", Means: "the device slows down by 6 % as it warms up, and drifts by 1 %; noise of 0.5 %",
			disturbances: simulated.Disturbances{Sigma: 0.005, Drift: 0.06, Wander: 0.01}, mostOpen: MostOpen},
		{Name: "in-order", Means: "rounds in order of M; the device slows down by 4 % in each; noise of 0.5 %",
			disturbances: simulated.Disturbances{Sigma: 0.005, Drift: 0.3}, inOrder: true},
		{Name: "cache", Means: "the previous case changes a block by up to 1 %; noise of 0.5 %",
			disturbances: simulated.Disturbances{Sigma: 0.005, Cache: 0.01}, mostOpen: MostOpen},
		{Name: "allocation", Means: "each allocation changes a row by 0.3 %; noise of 0.5 %",
			disturbances: simulated.Disturbances{Sigma: 0.005, Allocation: 0.003}, mostOpen: MostOpen},
		{Name: "waves", Means: "a staircase of waves; noise of 1 %", waves: true,
			disturbances: simulated.Disturbances{Sigma: 0.01}, mostOpen: MostOpen},
		{Name: "switches", Means: "a library that changes its algorithm, sometimes for a slower one; noise of 1 %", switches: true,
			disturbances: simulated.Disturbances{Sigma: 0.01}, mostOpen: MostOpen},
		{Name: "inferred",
			Means: "few rows are measured, chosen by the library's kernels, and the others inferred; 0.4 % of the rows are slow alone; " +
				"noise of 0.2 %",
			infers: true, disturbances: simulated.Disturbances{Sigma: 0.002}, mostOpen: MostOpenQuiet},
		{Name: "untold", Means: "the same for a library that does not report its kernels", infers: true, untold: true,
			disturbances: simulated.Disturbances{Sigma: 0.002}, mostOpen: MostOpenQuiet},
		{Name: "all", Means: "all of these together, each smaller", waves: true, switches: true, mostOpen: MostOpen,
			disturbances: simulated.Disturbances{Sigma: 0.004, HeavyTailed: true, Stray: 0.01, Modes: 0.03, Drift: 0.02, Wander: 0.004,
				Cache: 0.004, Allocation: 0.0015, PowerLimited: true}},
	}
}

// AllKindNames lists the names of the kinds of machines, then those of data sets.
func AllKindNames() (names []string) {
	for _, k := range Kinds() {
		names = append(names, k.Name)
	}
	for _, k := range DataKinds() {
		names = append(names, k.Name)
	}
	return names
}

// KindsNamed returns kinds of machines and of data sets by name in print order, or all without names. The error lists the valid
// names.
func KindsNamed(names ...string) (kinds []Kind, data []DataKind, err error) {
	for _, name := range names {
		if !slices.Contains(AllKindNames(), name) {
			return nil, nil, fmt.Errorf("unknown kind of noise %q: expected one of %s", name, strings.Join(AllKindNames(), ", "))
		}
	}
	other := func(name string) bool { return len(names) > 0 && !slices.Contains(names, name) }
	return slices.DeleteFunc(Kinds(), func(k Kind) bool { return other(k.Name) }),
		slices.DeleteFunc(DataKinds(), func(k DataKind) bool { return other(k.Name) }), nil
}

// PromisedDepth is the loss of the slow intervals that must be found.
const PromisedDepth = 0.075

// Depths are the planted losses, ascending. At a threshold of 0.95 the first two are within the bound.
func Depths() []float64 { return []float64{0.045, 0.049, 0.055, 0.06, PromisedDepth, 0.10, 0.20} }
