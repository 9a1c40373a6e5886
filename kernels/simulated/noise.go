package simulated

import (
	"math"
	"math/rand/v2"
)

// Disturbances describe the difference between truth and samples. Numbers are standard deviations of log time
// unless stated otherwise. Modes, Cache, Allocation, PowerLimited and ClockUntold are for machines.
type Disturbances struct {
	// Sigma is a block's noise: Gaussian, or with HeavyTailed Student's t with 3 degrees of freedom.
	Sigma       float64
	HeavyTailed bool
	// Stray is the share of blocks slowed by other causes, by about a tenth.
	Stray float64
	// Modes is the share of bimodal rows; blocks alternate between two levels at random.
	Modes float64
	// Drift is the slowdown of every product, in log time, after the device has worked for a while; idling
	// undoes it. It makes times depend on the order of blocks. Wander varies within some tenths of a second.
	Drift, Wander float64
	// Delayed is the share of blocks that other work delays, and Delay their exponential mean slowdown in log
	// time. The fastest times are unaffected. With Spell, delays come in spells of that mean length in
	// seconds, as from an active neighbor; otherwise singly.
	Delayed, Delay, Spell float64
	// Cache is the effect of the previous product on a block.
	Cache float64
	// Allocation is the effect of the operands' addresses on a row, constant while they are allocated.
	Allocation float64
	// PowerLimited makes the clock wander below a power limit; otherwise it is constant.
	PowerLimited bool
	// ClockUntold hides clock, power and throttle reasons.
	ClockUntold bool
}

// warmTime and wanderTime are the time constants of Drift and Wander.
const warmTime, wanderTime = 0.5, 0.2

// disturbed is what disturbances remember between blocks.
type disturbed struct {
	last   *row    // that ran before
	warmth float64 // of Drift, 0 to 1
	wander float64
	spell  bool // other work is running; see Spell
}

// next is a block's distance from the truth in log time. It begins with r and lasts some seconds.
func (s *disturbed) next(cfg Disturbances, rng *rand.Rand, r *row, seconds float64) float64 {
	y := cfg.Sigma * rng.NormFloat64()
	if cfg.HeavyTailed {
		chi := 0.0
		for range 3 {
			v := rng.NormFloat64()
			chi += v * v
		}
		y /= math.Sqrt(chi) // variance 3 of Student's t, over its 3 degrees of freedom
	}
	if cfg.Stray > 0 && rng.Float64() < cfg.Stray {
		y += 0.1 * math.Exp(0.7*rng.NormFloat64())
	}
	if cfg.Drift != 0 {
		s.warmth += (1 - s.warmth) * -math.Expm1(-seconds/warmTime)
		y += cfg.Drift * s.warmth
	}
	if cfg.Wander > 0 {
		keep := math.Exp(-seconds / wanderTime)
		s.wander = keep*s.wander + cfg.Wander*math.Sqrt(1-keep*keep)*rng.NormFloat64()
		y += s.wander
	}
	if cfg.Delayed > 0 {
		// The chance that a spell, or the pause between two, ends within the block.
		change := 1.0
		if cfg.Spell > 0 {
			change = -math.Expm1(-seconds / (cfg.Spell * (1 - cfg.Delayed)))
		}
		if rng.Float64() < change {
			s.spell = rng.Float64() < cfg.Delayed
		}
		if s.spell {
			y += cfg.Delay * rng.ExpFloat64()
		}
	}
	if cfg.Cache > 0 && s.last != nil && s.last != r {
		y += cfg.Cache * r.sensitivity * s.last.footprint
	}
	return y
}
