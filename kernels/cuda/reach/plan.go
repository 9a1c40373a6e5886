package reach

import (
	"math"
	"math/rand/v2"
	"time"
)

const (
	// Block is the approximate length of a sample, unless a launch is longer. MostLaunches bounds its
	// launches.
	Block        = 400 * time.Microsecond
	MostLaunches = 400
	// wantedSamples is the planned samples per product. Remaining time adds more.
	wantedSamples = 9
	// printedRarer is how many times fewer informational series are kept than products, if there is no time
	// for all.
	printedRarer = 4
)

// Overhead in seconds of a product and of a sample.
const (
	productSetUp = 4e-3
	sampleExtra  = 150e-6
)

// Machine has the rates from which a product's time is estimated.
type Machine struct {
	Peak      float64 // operations per second of 16-bit types
	Bandwidth float64 // bytes a second
}

// Seconds estimates the time of a launch from the rates that kernels usually reach.
func (a Machine) Seconds(p Product) float64 {
	rate := a.Peak * 0.65
	if p.DType.Size() == 1 {
		rate *= 2
	}
	return 2.5e-6 + max(p.FLOPs()/rate, p.bytes()/(0.8*a.Bandwidth))
}

// Launches returns the launches per sample for a launch of the given time.
func Launches(seconds float64) int {
	return int(min(max(math.Ceil(Block.Seconds()/seconds), 1), MostLaunches))
}

func (a Machine) cost(p Product) float64 {
	one := a.Seconds(p)
	return wantedSamples * (one*float64(Launches(one)) + sampleExtra)
}

// Plan is the jobs that fit into a time.
type Plan struct {
	Jobs []Job
	// Share is the kept share of products, Printed that for informational series.
	Share, Printed float64
}

// NewPlan keeps as many products as there is time for, drawn by a seed. A longer time keeps a superset.
func NewPlan(all []Product, seed uint64, a Machine, budget time.Duration) Plan {
	rng := rand.New(rand.NewPCG(seed, 1))
	draws := make([]float64, len(all))
	for i := range draws {
		draws[i] = rng.Float64()
	}
	plan := func(share float64) (p Plan, seconds float64) {
		p.Share, p.Printed = min(share, 1), min(share/printedRarer, 1)
		for i, product := range all {
			if draws[i] >= p.Share {
				continue
			}
			series := decisive(product.DType)
			if draws[i] < p.Printed {
				series = append(series, printed(product)...)
			}
			p.Jobs = append(p.Jobs, Job{product, series})
			seconds += productSetUp + float64(len(series))*a.cost(product)
		}
		return p, seconds
	}
	low, high := 0.0, float64(printedRarer)
	if p, seconds := plan(high); seconds <= budget.Seconds() {
		return p
	}
	for range 30 {
		middle := (low + high) / 2
		if _, seconds := plan(middle); seconds <= budget.Seconds() {
			low = middle
		} else {
			high = middle
		}
	}
	p, _ := plan(low)
	return p
}

// Estimate returns the approximate time of all series of all products with the given number of samples.
func Estimate(all []Product, a Machine, samples int) time.Duration {
	var seconds float64
	for _, p := range all {
		n := len(decisive(p.DType)) + len(printed(p))
		seconds += productSetUp + float64(n)*a.cost(p)*float64(samples)/wantedSamples
	}
	return time.Duration(seconds * float64(time.Second))
}
