package sweep

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/results"
)

// Options are the user's choices for a sweep. Zero values use the preset's.
type Options struct {
	Preset  string
	Targets []Target // from ParseTarget and ModelTargets
	// Notes are notes on the targets, from [ModelNotes].
	Notes []Note
	// Operations apply to the preset's models if there are no targets; empty means the matrix product.
	Operations []kernels.Operation
	Layout     kernels.Layout // of the weights
	// Weights lists the forms of the weights, each with its own series. If empty, a model's stored form or
	// plain weights are used.
	Weights []kernels.WeightFormat
	Batches Batches
	// Kernels are names, or [LadderKernels]; if empty, libraries, auto and user kernels are measured.
	Kernels []string
	// Libraries omits auto from the default kernels if the device has another kernel.
	Libraries bool
	// First is the kernel whose series come first, if it is measured.
	First string
	// Algorithms is how many further choices of a kernel with [kernels.Candidates] are measured.
	Algorithms int
	DTypes     []kernels.DType
	Regime     results.Regime
	// Distribution of the operands, normal by default.
	Distribution kernels.Distribution
	Threads      int // of a CPU; 0 is all
	PackInside   bool
	// Rounds and Screening are the maximum and minimum number of samples of a case; the preset gives the
	// defaults. Screening is at most Rounds.
	Rounds      int
	Screening   int
	Seed        uint64
	BlockTarget time.Duration
	MinLaunches int
	Shard       Shard
	Deadline    time.Duration
	// ReferenceClock is the clock in MHz at which times are judged; 0 uses the sentinels' clock.
	ReferenceClock float64
	// Lead is [Plan].Lead.
	Lead time.Duration
	// Budget thins the grid until the rounds are expected to fit; a negative one disables this. A preset's
	// budget never thins requested Batches.
	Budget   time.Duration
	Sentinel SentinelConfig
	// Infer enables inference for long series: see [PlannedSeries].Infer. nil uses the preset's.
	Infer *bool
	// Traffic gives the Ms to measure first under a deadline, and to keep if the plan is thinned. It is empty
	// if unknown.
	Traffic results.Traffic
	// Recorded lists the products of a recorded workload, which are also targets. NewPlan fills in their
	// expected times.
	Recorded results.Recorded
	// Routings are those of grouped products, each planned; empty for [DefaultRouting].
	Routings []Routing
	// Epilogues are those of fused products, each planned; empty for those of the targets.
	Epilogues []kernels.Epilogue
	// TopK is the number of groups per token, where neither the shape nor the model gives it; 0 is 2, or all groups if there
	// are fewer.
	TopK int
	// Tokens says that Batches count tokens, also for grouped products.
	Tokens bool
	// Neighbours adds, to each target with its own M, the Ms needed for its pads and splits.
	Neighbours bool
}

// NewPlan makes a plan for devices. est predicts the times for a budget; it may know nothing. If ctx ends,
// NewPlan returns its error.
func NewPlan(ctx context.Context, devices []kernels.Device, o Options, est *Predictor) (*Plan, error) {
	if len(devices) == 0 {
		return nil, errors.New("plan: no device to measure on")
	}
	preset, err := FindPreset(o.Preset)
	if err != nil {
		return nil, err
	}
	p := &Plan{
		Schema: PlanSchema, Preset: preset.Name,
		Rounds: orElse(o.Rounds, preset.Rounds), Seed: o.Seed,
		Regime: orElse(o.Regime, results.Engine), Distribution: orElse(o.Distribution, kernels.Normal),
		BlockTarget: orElse(o.BlockTarget, preset.BlockTarget), MinLaunches: max(1, o.MinLaunches),
		Sentinel: orElse(o.Sentinel, DefaultSentinel()), Shard: o.Shard,
		Deadline: orElse(o.Deadline, preset.Deadline), ReferenceClock: o.ReferenceClock, Traffic: o.Traffic, Lead: o.Lead,
		Recorded: slices.Clone(o.Recorded), Routings: tables(o.Routings),
	}
	if o.Rounds < 0 {
		return nil, fmt.Errorf("%d rounds, expected at least 1", o.Rounds)
	}
	if o.Threads < 0 {
		return nil, fmt.Errorf("%d threads, expected at least 1", o.Threads)
	}
	p.Screening = min(orElse(o.Screening, preset.Screening), p.Rounds)
	infer := preset.Infer
	if o.Infer != nil {
		infer = *o.Infer
	}
	if (infer || len(p.Traffic)+len(p.Recorded) > 0) && p.Deadline > 0 {
		p.Step = p.Deadline / steps
	}
	if o.Algorithms < 0 || o.Algorithms > kernels.MaxCandidates {
		return nil, fmt.Errorf("%d algorithms, expected 0 to %d", o.Algorithms, kernels.MaxCandidates)
	}
	targets, err := o.targets(preset)
	if err != nil {
		return nil, err
	}
	grid := o.Batches
	if len(grid) == 0 {
		if grid, err = ParseBatches(preset.Batches); err != nil {
			return nil, err
		}
	}
	b := planner{plan: p, options: o, preset: preset, grid: grid, infer: infer}
	for _, n := range o.Notes {
		b.add(n)
	}
	for _, d := range devices {
		for _, t := range targets {
			if err := ctx.Err(); err != nil {
				return nil, err
			}
			routed, err := o.routed(t)
			if err != nil {
				return nil, err
			}
			for _, t := range o.finished(routed) {
				if err := b.target(d, t); err != nil {
					return nil, err
				}
			}
		}
	}
	b.sort()
	p.Recorded.Sort()
	if est != nil {
		p.expect(est)
	}
	for _, name := range o.Kernels {
		if !b.found[name] {
			return nil, b.missing[name]
		}
	}
	if err := b.unmet(); err != nil {
		return nil, err
	}
	b.noteCuts()
	b.noteTraffic()
	if len(p.Series) == 0 {
		if err := b.unsupported(devices, targets); err != nil {
			return nil, err
		}
	}
	if budget := o.budget(preset); budget > 0 && est != nil {
		p.thin(ctx, est, CacheSizes(devices), budget, &o)
	}
	if o.Deadline > 0 && est != nil && len(p.Traffic)+len(p.Recorded) == 0 {
		p.spread(est, CacheSizes(devices))
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if o.Deadline == 0 {
		p.deadline(o, preset, est, CacheSizes(devices))
	}
	if p.Deadline == 0 && !infer {
		p.Step = 0
	}
	if len(p.Series) == 0 && len(b.refusals) > 0 {
		return p, b.untaken()
	}
	if err := p.Validate(); err != nil {
		return p, err
	}
	return p, p.checkShard()
}

// targets returns the user's targets, or those of the preset's models.
func (o *Options) targets(preset Preset) ([]Target, error) {
	if len(o.Targets) > 0 {
		return o.Targets, nil
	}
	operations := o.Operations
	if len(operations) == 0 {
		operations = make([]kernels.Operation, 1) // the default
	}
	var targets []Target
	for _, operation := range operations {
		for _, spec := range preset.Models {
			if !operation.HasWeights() {
				spec, _, _ = strings.Cut(spec, ":") // of projections
			}
			t, err := ModelTargets(operation, spec, 1, 1)
			if err != nil {
				return nil, err
			}
			targets = append(targets, t...)
		}
	}
	return targets, nil
}

// budget is the time that the rounds are thinned to, 0 for no limit.
func (o *Options) budget(preset Preset) time.Duration {
	budget := o.Budget
	if budget == 0 && len(o.Batches) == 0 {
		budget = preset.Budget
		if o.Deadline > 0 { // with the preset's margin for what the estimate omits
			budget = min(budget, time.Duration(float64(o.Deadline)*float64(preset.Budget)/float64(preset.Deadline)))
		}
	}
	return budget
}

func (p *Plan) checkShard() error {
	whole := *p
	whole.Shard = Shard{}
	if n := whole.Rows(); p.Shard.Count > 1 && n > 0 && p.Rows() == 0 {
		return fmt.Errorf("shard %v has no case: of so few (%d), expected fewer parts than %d", p.Shard, n, p.Shard.Count)
	}
	return nil
}

// deadline omits the preset's deadline if it would cut the user's batches and rounds, or if the weight
// matrices need longer with the fewest batches.
func (p *Plan) deadline(o Options, preset Preset, est *Predictor, llc map[string]int64) {
	whole := len(o.Batches) > 0 || o.Rounds > 0
	if !whole && len(o.Targets) == 0 {
		return
	}
	var all time.Duration
	if est != nil {
		all = est.Plan(p, nil, llc).Expected
	}
	if all > preset.Deadline {
		p.Notes = append(p.Notes, Note{What: "preset " + preset.Name, Why: fmt.Sprintf(
			"its deadline of %v is ignored, because the plan takes about %v: set one with --deadline", preset.Deadline,
			all.Round(time.Second))})
	}
	if whole || all > preset.Deadline {
		p.Deadline = 0
	}
}

func orElse[T comparable](v, otherwise T) T {
	var zero T
	if v == zero {
		return otherwise
	}
	return v
}

// CacheSizes returns the last-level cache of each device in bytes, by ID.
func CacheSizes(devices []kernels.Device) map[string]int64 {
	out := map[string]int64{}
	for _, d := range devices {
		out[d.Spec().ID] = d.Spec().LastLevelCacheBytes
	}
	return out
}

type planner struct {
	plan    *Plan
	options Options
	preset  Preset
	grid    Batches
	infer   bool
	found   map[string]bool  // requested kernels that some device has
	missing map[string]error // why one has not been found so far
	noted   map[Note]bool
	cuts    []cut
	refused []refusal
	// refusals are the last one of each kernel that takes nothing of a series.
	refusals []Note
	at       map[results.SeriesKey]int // index of a series in the plan
	merged   map[int]bool              // series with added Ms, unordered until sort
}
