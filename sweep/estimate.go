package sweep

import (
	"math/bits"
	"slices"
	"time"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/results"
)

// expectedMFU is the share of the peak that a kernel is taken to reach before
// anything was measured. Only plans depend on it, and only until the first round.
func expectedMFU(kernel string) float64 {
	if kernel == "naive" {
		return 0.02 // one multiply and add at a time
	}
	return 0.5
}

// Predictor predicts times from the ceilings of devices, before anything was
// measured. A running sweep replaces its predictions by what pilots find.
type Predictor struct {
	ceilings map[string]kernels.Ceilings
}

// NewPredictor returns an estimator for devices by id.
func NewPredictor(ceilings map[string]kernels.Ceilings) *Predictor {
	return &Predictor{ceilings: ceilings}
}

// launchOverhead is what a launch costs at least, on any device.
const launchOverhead = 2e-6

// Launch is the expected time of one execution of a case, all its parts, in seconds.
func (e *Predictor) Launch(c results.Case) float64 {
	switch {
	case len(c.Parts) > 0:
		var sum float64
		for _, m := range c.Parts {
			sum += e.launch(c, m)
		}
		return sum
	case c.Copied:
		t := e.launch(c, c.PadTo) + launchOverhead
		if copying := e.ceilings[c.Device].CopyBandwidth; copying > 0 {
			t += 2 * float64(copiedBytes(c)) / copying
		}
		return t
	case c.PadTo > 0:
		return e.launch(c, c.PadTo)
	}
	return e.launch(c, c.M)
}

func (e *Predictor) launch(c results.Case, m int) float64 {
	ceilings := e.ceilings[c.Device]
	flops := 100e9 // a core or two; used where a device knows nothing of itself
	if peak, ok := ceilings.Peak(c.DType); ok && peak.FLOPS > 0 {
		flops = peak.FLOPS
	}
	t := c.Subject.FLOPs(m) / (flops * expectedMFU(c.Kernel))
	if bw := ceilings.Bandwidth(c.Operation).Rate; bw > 0 && c.Regime != results.Hot {
		t = max(t, c.Subject.Bytes(m)/bw)
	}
	return t + launchOverhead
}

// Block is the expected time of one block of a case under a plan.
func (e *Predictor) Block(p *Plan, c results.Case) time.Duration {
	one := e.Launch(c)
	t := max(one*float64(p.MinLaunches), p.BlockTarget.Seconds()+one/2)
	if one >= p.BlockTarget.Seconds() {
		t = one * float64(p.MinLaunches)
	}
	return time.Duration(t * 1e9)
}

// Case is the expected time of all blocks of a case under a plan.
func (e *Predictor) Case(p *Plan, c results.Case) time.Duration {
	return time.Duration(float64(e.Block(p, c)) * p.expectedRounds())
}

// Prediction is how long a plan takes.
type Prediction struct {
	// Rows is how many Ms the series have. Cases are those that are measured, of inferred
	// series the seeds: a designer may ask for more of these, up to all.
	Rows, Cases int
	// Samples counts blocks of all rounds of the cases; a chooser may ask for fewer.
	Samples int
	// Round is the time of one round over every case, Screening that of the rounds
	// that cover every case, Expected that of the later rounds too, of which each
	// covers openShare of the cases. Devices work side by side, so the slowest counts.
	Round, Screening, Expected time.Duration
	// SetUp is the time for filling and packing weights and for pilots.
	SetUp time.Duration
	// First is the time of a round over what the first rounds measure: all cases, but for
	// those that a [Plan].Step leaves for later.
	First time.Duration
}

// openShare is the share of the cases that a round after the screening is taken to
// measure. On a quiet GPU it is a tenth of them, on a CPU that others use a third.
const openShare = 0.25

// expectedRounds is how many blocks a case gets on average.
func (p *Plan) expectedRounds() float64 {
	return float64(p.Screening) + openShare*float64(p.Rounds-p.Screening)
}

// setUpBytesPerSecond is how fast weights are filled and packed, in bytes a
// second; random numbers set the pace.
const setUpBytesPerSecond = 500e6

// Plan predicts a plan on devices of the given last-level caches. Of inferred series that have
// no seeds in seeds, which may be nil, some are assumed.
func (e *Predictor) Plan(p *Plan, seeds Seeds, llc map[string]int64) Prediction {
	var out Prediction
	type device struct{ all, stepped, setUp time.Duration }
	devices := map[string]*device{}
	type weights struct {
		device  string
		subject kernels.Subject
		kernel  string
	}
	seen := map[weights]bool{}
	for _, s := range p.Own() {
		of := devices[s.Device]
		if of == nil {
			of = &device{}
			devices[s.Device] = of
		}
		ms := s.Ms
		if s.Infer {
			if ms = seeds[s.SeriesKey]; len(ms) == 0 {
				ms = assumedSeeds(s.Ms)
			}
		}
		out.Rows += len(s.Ms)
		out.Cases += len(ms)
		for _, m := range ms {
			c := s.Case(m)
			block := e.Block(p, c)
			of.all += block
			if s.Infer || p.staged() {
				of.stepped += block
			}
			// A pilot is one launch to touch memory and a short block.
			one := e.Launch(c)
			of.setUp += time.Duration(min(2*one, one+p.BlockTarget.Seconds()/4) * 1e9)
			w := weights{c.Device, c.Subject, c.Kernel}
			if !seen[w] {
				seen[w] = true
				bytes := weightBytes(c)
				total := float64(bytes * int64(copiesFor(p.Regime, bytes, llc[c.Device])))
				of.setUp += time.Duration(total / setUpBytesPerSecond * 1e9)
			}
		}
	}
	out.Samples = out.Cases * p.Rounds
	for _, d := range devices {
		first := d.all
		if step := p.Step / time.Duration(p.Screening); step > 0 {
			first -= max(0, d.stepped-step)
		}
		out.First = max(out.First, first)
		out.Round = max(out.Round, d.all)
		out.Screening = max(out.Screening, d.all*time.Duration(p.Screening)+d.setUp)
		out.Expected = max(out.Expected, time.Duration(float64(d.all)*p.expectedRounds())+d.setUp)
		out.SetUp = max(out.SetUp, d.setUp)
	}
	return out
}

// assumedSpread and assumedStep are how far apart the seeds of an inferred series are taken to
// lie at most, as a share of M and in rows, before a designer has chosen them: between those of
// kernels that tell what they run and of those that do not.
const assumedSpread, assumedStep = 1.0 / 32, 32

// assumedSeeds are some of ms, about as many as a designer would choose.
func assumedSeeds(ms Batches) Batches {
	if len(ms) <= wholeBatches {
		return ms
	}
	out := slices.Clone(ms[:wholeBatches])
	for i, at := wholeBatches, wholeBatches; i < len(ms); i++ {
		if i-at >= assumedStep || float64(ms[i]) >= float64(ms[at])*(1+assumedSpread) || i == len(ms)-1 {
			out, at = append(out, ms[i]), i
		}
	}
	return out
}

// EveryRow is the time that the screening takes when every row of inferred series has to be
// measured, on the device that takes longest.
func (e *Predictor) EveryRow(p *Plan) time.Duration {
	devices := map[string]time.Duration{}
	for _, s := range p.Own() {
		for _, m := range s.Ms {
			devices[s.Device] += e.Block(p, s.Case(m)) * time.Duration(p.Screening)
		}
	}
	var most time.Duration
	for _, t := range devices {
		most = max(most, t)
	}
	return most
}

// weightBytes is the size of a case's raw weights.
func weightBytes(c results.Case) int64 { return matrixOf(c).bytes() }

// maxCopies bounds the copies of tiny weights, whose launches are bound one by
// one. Matrices that would need more, below 6 KB on a device with 32 MB of
// last-level cache, rotate over less than they should, and say so.
const maxCopies = 1 << 14

// copiesFor is how many copies of weights of that size a regime rotates over.
func copiesFor(regime results.Regime, bytes, llc int64) int {
	if regime == results.Hot || bytes <= 0 {
		return 1
	}
	need := kernels.RotationFactor * llc
	n := int(min(maxCopies, max(2, (need+bytes-1)/bytes)))
	if regime == results.Cold {
		n = divisible(n)
	}
	return n
}

// placesFor is over how many places of input and output a case rotates whose operation has no operand
// that stays in memory: so many that each has left the cache when it comes round again, and a power of two,
// so that those of all Ms divide the most there are. In the hot regime it is one.
func placesFor(c results.Case, llc int64) int {
	n := 1
	if c.Regime != results.Hot {
		touched := inputBytes(c) + outputBytes(c)
		for n < maxCopies && int64(n)*touched < kernels.RotationFactor*llc {
			n *= 2
		}
	}
	return n
}

// rotated is how many copies of its weights, or places, a case rotates over.
func rotated(c results.Case, llc int64) int {
	if !c.Operation.Stores() {
		return placesFor(c, llc)
	}
	return copiesFor(c.Regime, weightBytes(c), llc)
}

// divisible is n, or up to an eighth more, with a divisor within twice of any
// number: a power of two times 8 to 15. In the cold regime the places of A and C
// must divide the copies; of a prime number of them every copy would need its own.
func divisible(n int) int {
	unit := 1 << max(0, bits.Len(uint(n))-4)
	return (n + unit - 1) / unit * unit
}
