package simulated

import (
	"math"
	"math/rand/v2"
)

// The power limit and the clock's response to it.
const (
	powerLimitW = 700
	staticW     = 250
	leakW       = 1.6 // extra static power per degree above leakFromC
	leakFromC   = 60
	idleW       = 90
	// clockTime is the time constant of the clock. The mean clocks of 1 ms blocks then have a lag-1
	// autocorrelation of 0.86.
	clockTime = 3.2e-3
	// clockNoise is the random standard deviation of the clock's logarithm.
	clockNoise = 0.027
	// clockRead is the error of reading a block's clock.
	clockRead = 0.0005
	// The temperature approaches ambientC + degreesPerW × power.
	ambientC, degreesPerW = 30, 0.065
	thermalTime           = 20 // seconds
	powerTime             = 20e-3
)

type governor struct {
	on    bool
	rng   *rand.Rand
	x     float64 // log(clock ÷ nominal)
	stray float64 // the random part of x
	drive float64 // the part that follows the load
	temp  float64
	power float64 // running mean, as in telemetry
	// energy is in joules since the device was opened.
	energy float64
	// sum and time give the mean clock.
	sum, time float64
}

// target returns the clock that a product of this dynamic power approaches.
func (g *governor) target(watts float64) float64 {
	static := staticW + leakW*math.Max(0, g.temp-leakFromC)
	return math.Min(0.5*math.Log((powerLimitW-static)/watts), math.Log(maxClockMHz/float64(NominalClockMHz)))
}

func (g *governor) run(watts, seconds float64) float64 {
	if !g.on {
		g.heat(staticW+watts, seconds)
		return 0
	}
	before := g.x
	keep := math.Exp(-seconds / clockTime)
	g.drive = keep*g.drive + (1-keep)*g.target(watts)
	g.stray = keep*g.stray + clockNoise*math.Sqrt(1-keep*keep)*g.rng.NormFloat64()
	g.x = math.Min(g.drive+g.stray, math.Log(maxClockMHz/float64(NominalClockMHz)))
	// The mean of an exponential approach lies between its ends.
	weight := 0.5
	if seconds > clockTime/100 {
		weight = clockTime/seconds - keep/(1-keep)
	}
	mean := weight*before + (1-weight)*g.x
	g.heat(staticW+watts*math.Exp(2*mean), seconds)
	g.sum += mean * seconds
	g.time += seconds
	return mean
}

func (g *governor) rest(seconds float64) {
	if g.on {
		keep := math.Exp(-seconds / clockTime)
		g.drive = keep*g.drive + (1-keep)*math.Log(maxClockMHz/float64(NominalClockMHz))
		g.x = math.Min(g.drive+g.stray, math.Log(maxClockMHz/float64(NominalClockMHz)))
	}
	g.heat(idleW, seconds)
}

func (g *governor) heat(watts, seconds float64) {
	g.energy += watts * seconds
	g.power += (watts - g.power) * -math.Expm1(-seconds/powerTime)
	g.temp += (ambientC + degreesPerW*watts - g.temp) * -math.Expm1(-seconds/thermalTime)
}
