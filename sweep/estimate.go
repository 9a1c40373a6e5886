package sweep

import (
	"math/bits"
	"slices"
	"time"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/results"
)

// expectedMFU is a kernel's assumed share of the peak, used by plans until the first round.
func expectedMFU(kernel string) float64 {
	if kernel == "naive" {
		return 0.02 // one multiply and add at a time
	}
	return 0.5
}

// Predictor predicts times from device ceilings before any measurement. A running sweep replaces the
// predictions by pilot results.
type Predictor struct {
	ceilings map[string]kernels.Ceilings
}

// NewPredictor returns a predictor; ceilings are by device id.
func NewPredictor(ceilings map[string]kernels.Ceilings) *Predictor {
	return &Predictor{ceilings: ceilings}
}

// launchOverhead is the minimum cost of a launch on any device, in seconds.
const launchOverhead = 2e-6

// Launch is the expected time of one execution of all parts of a case, in seconds.
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
	flops := 100e9 // one or two cores, for devices without known ceilings
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
	return p.blockOf(e.Launch(c))
}

func (p *Plan) blockOf(one float64) time.Duration {
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

// Prediction describes how long a plan takes.
type Prediction struct {
	// Rows counts the Ms of all series, Cases the measured ones: of inferred series the seeds, to which a
	// designer may add.
	Rows, Cases int
	// Samples counts the blocks of all rounds; a chooser may ask for fewer.
	Samples int
	// Round is one round over every case. Screening covers the rounds with every case. Expected adds the
	// later rounds, each with openShare of the cases. The slowest device counts.
	Round, Screening, Expected time.Duration
	// SetUp is the time to fill and pack weights and to run pilots.
	SetUp time.Duration
	// First is one round over the first step's cases: all of them without a [Plan].Step.
	First time.Duration
}

// openShare is the assumed share of cases in a round after the screening: on a quiet GPU a tenth, on a shared
// CPU a third.
const openShare = 0.25

func (p *Plan) expectedRounds() float64 {
	return float64(p.Screening) + openShare*float64(p.Rounds-p.Screening)
}

// Random number generation limits the fill rate of weights.
const setUpBytesPerSecond = 500e6

// Plan predicts the time of a plan; llc gives last-level cache sizes by device. Inferred series without seeds
// get assumed ones.
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

// assumedSpread (a share of M) and assumedStep (rows) limit the distance between assumed seeds of an inferred
// series.
const assumedSpread, assumedStep = 1.0 / 32, 32

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

// EveryRow is the screening time on the slowest device if every row of the inferred series is measured.
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

func weightBytes(c results.Case) int64 { return matrixOf(c).bytes() }

// maxCopies limits the copies of tiny weights, since each copy is bound separately. Matrices below 6 KB with
// 32 MB of last-level cache rotate over too few copies, and a note reports it.
const maxCopies = 1 << 14

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

// placesFor is the number of input and output places of a case without an operand that stays in memory. Each
// place must leave the cache before its next use. Powers of two let the places of all Ms divide the largest
// number.
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

// rotated is the number of weight copies, or of places without weights.
func rotated(c results.Case, llc int64) int {
	if !c.Operation.Stores() {
		return placesFor(c, llc)
	}
	bytes := weightBytes(c)
	if c.Operation.Definition().Held != nil { // a launch may read less than there is
		bytes = min(bytes, int64(c.StoredBytes(int(rows(c)))))
	}
	return copiesFor(c.Regime, bytes, llc)
}

// divisible rounds n up by at most an eighth to a power of two times 8 to 15. In the cold regime the places
// of A and C must divide the number of copies; with a prime, every copy would need its own place.
func divisible(n int) int {
	unit := 1 << max(0, bits.Len(uint(n))-4)
	return (n + unit - 1) / unit * unit
}
