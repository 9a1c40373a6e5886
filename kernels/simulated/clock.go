package simulated

import (
	"math"
	"math/rand/v2"
)

// The power limit and how the clock obeys it.
const (
	powerLimitW = 700
	staticW     = 250
	leakW       = 1.6 // more static power for each degree above leakFromC
	leakFromC   = 60
	idleW       = 90
	// clockTime is the time constant with which the clock follows what runs: lag-1
	// autocorrelation of the mean clocks of 1 ms blocks is then 0.86.
	clockTime = 3.2e-3
	// clockNoise is the deviation of the clock, in logs, that nothing explains.
	clockNoise = 0.027
	// clockRead is the error of a block's clock as it is read.
	clockRead = 0.0005
	// The temperature heads for ambientC + degreesPerW × power.
	ambientC, degreesPerW = 30, 0.065
	thermalTime           = 20 // seconds
	powerTime             = 20e-3
)

// governor is the clock of a device under a power limit.
type governor struct {
	on    bool
	rng   *rand.Rand
	x     float64 // log(clock ÷ nominal)
	stray float64 // the part of x that nothing explains
	drive float64 // the part that follows what runs
	temp  float64
	power float64 // running mean, as telemetry gives it
	// energy is in joules since the device was opened.
	energy float64
	// sum and time make the usual clock.
	sum, time float64
}

// target is where the clock heads while a product of the given dynamic power runs.
func (g *governor) target(watts float64) float64 {
	static := staticW + leakW*math.Max(0, g.temp-leakFromC)
	return math.Min(0.5*math.Log((powerLimitW-static)/watts), math.Log(maxClockMHz/float64(NominalClockMHz)))
}

// run lets a product run for some seconds and returns the log of the mean clock.
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

// rest lets time pass with nothing to do.
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
