package trust

import (
	"fmt"
	"slices"
	"strings"

	"github.com/gemmaudit/gemmaudit/kernels/simulated"
)

// Kind is a kind of noise under which machines are simulated.
type Kind struct {
	Name string `json:"name"`
	// Means says what it is in a few words.
	Means string `json:"means"`

	disturbances    simulated.Disturbances
	waves, switches bool
	// inOrder measures round after round in ascending M, with rests between the rounds,
	// as data may have been taken that is imported.
	inOrder bool
	// infers lets the rules choose which rows are measured, of a library that takes kernels
	// of several tiles; untold does so without asking it what it would run.
	infers, untold bool
	// mostOpen bounds the share of marginal and undecided rows; 0 is no bound.
	mostOpen float64
	// finds says that a slow interval of [PromisedDepth] must be found.
	finds bool
}

// Kinds are the kinds of noise, in the order in which they are printed.
func Kinds() []Kind {
	return []Kind{
		{Name: "quiet", Means: "noise of 0.2 %", disturbances: simulated.Disturbances{Sigma: 0.002}, mostOpen: MostOpenQuiet, finds: true},
		{Name: "noise1", Means: "noise of 1 %", disturbances: simulated.Disturbances{Sigma: 0.01}, mostOpen: MostOpenQuiet, finds: true},
		{Name: "noise3", Means: "noise of 3 %", disturbances: simulated.Disturbances{Sigma: 0.03}, mostOpen: MostOpen},
		{Name: "clock", Means: "a clock that wanders below a power limit, and noise of 0.2 %",
			disturbances: simulated.Disturbances{Sigma: 0.002, PowerLimited: true}, mostOpen: MostOpen},
		{Name: "hidden", Means: "the same clock, which the device does not tell",
			disturbances: simulated.Disturbances{Sigma: 0.002, PowerLimited: true, ClockUntold: true}, mostOpen: MostOpen},
		{Name: "tails", Means: "heavy tails: Student's t with 3 degrees of freedom, 1 %, and 3 % stray samples",
			disturbances: simulated.Disturbances{Sigma: 0.01, HeavyTailed: true, Stray: 0.03}, mostOpen: MostOpen},
		{Name: "delays", Means: "one-sided: a floor with noise of 1 %, and 40 % of the blocks delayed by 15 % on average",
			disturbances: simulated.Disturbances{Sigma: 0.01, Delayed: 0.4, Delay: 0.15}, mostOpen: MostOpen},
		{Name: "spells", Means: "one-sided: the same delays of half of the blocks, in spells of 30 ms",
			disturbances: simulated.Disturbances{Sigma: 0.01, Delayed: 0.5, Delay: 0.15, Spell: 0.03}, mostOpen: MostOpen},
		{Name: "modes", Means: "6 % of the rows have two levels, 3 to 12 % apart; noise of 0.5 %",
			disturbances: simulated.Disturbances{Sigma: 0.005, Modes: 0.06}, mostOpen: MostOpen},
		{Name: "drift", Means: "the device slows down by 6 % as it works, and wanders by 1 %; noise of 0.5 %",
			disturbances: simulated.Disturbances{Sigma: 0.005, Drift: 0.06, Wander: 0.01}, mostOpen: MostOpen},
		{Name: "in-order", Means: "rounds in order of M, in each of which the device slows down by 4 %; noise of 0.5 %",
			disturbances: simulated.Disturbances{Sigma: 0.005, Drift: 0.3}, inOrder: true},
		{Name: "cache", Means: "what ran before moves a block by up to 1 %; noise of 0.5 %",
			disturbances: simulated.Disturbances{Sigma: 0.005, Cache: 0.01}, mostOpen: MostOpen},
		{Name: "allocation", Means: "each allocation moves a row by 0.3 %; noise of 0.5 %",
			disturbances: simulated.Disturbances{Sigma: 0.005, Allocation: 0.003}, mostOpen: MostOpen},
		{Name: "waves", Means: "a staircase of waves; noise of 1 %", waves: true,
			disturbances: simulated.Disturbances{Sigma: 0.01}, mostOpen: MostOpen},
		{Name: "switches", Means: "a library that changes its algorithm, now and then for a worse one; noise of 1 %", switches: true,
			disturbances: simulated.Disturbances{Sigma: 0.01}, mostOpen: MostOpen},
		{Name: "inferred", Means: "few rows are measured, by what a library says that it would run, and the others inferred; 0.4 % of the rows are slow by themselves; noise of 0.2 %",
			infers: true, disturbances: simulated.Disturbances{Sigma: 0.002}, mostOpen: MostOpenQuiet},
		{Name: "untold", Means: "the same of a library that does not say what it would run", infers: true, untold: true,
			disturbances: simulated.Disturbances{Sigma: 0.002}, mostOpen: MostOpenQuiet},
		{Name: "all", Means: "all of these at once, each smaller", waves: true, switches: true, mostOpen: MostOpen,
			disturbances: simulated.Disturbances{Sigma: 0.004, HeavyTailed: true, Stray: 0.01, Modes: 0.03, Drift: 0.02, Wander: 0.004,
				Cache: 0.004, Allocation: 0.0015, PowerLimited: true}},
	}
}

// KindNames lists the names of the kinds.
func KindNames() []string {
	var names []string
	for _, k := range Kinds() {
		names = append(names, k.Name)
	}
	return names
}

// ParseKinds finds kinds by name; none names all of them. The error lists what there is.
func ParseKinds(names []string) ([]Kind, error) {
	if len(names) == 0 {
		return Kinds(), nil
	}
	var out []Kind
	for _, k := range Kinds() {
		if slices.Contains(names, k.Name) {
			out = append(out, k)
		}
	}
	for _, name := range names {
		if !slices.Contains(KindNames(), name) {
			return nil, fmt.Errorf("unknown kind of noise %q: expected one of %s", name, strings.Join(KindNames(), ", "))
		}
	}
	return out, nil
}

// PromisedDepth is the loss of the slow intervals that must be found.
const PromisedDepth = 0.075

// Depths are the losses of which each machine gets some planted, ascending. At a
// threshold of 0.95 the first two lie within the bound.
func Depths() []float64 { return []float64{0.045, 0.049, 0.055, 0.06, PromisedDepth, 0.10, 0.20} }
