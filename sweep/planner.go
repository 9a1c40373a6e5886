package sweep

import (
	"cmp"
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
		Recorded: slices.Clone(o.Recorded),
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
	targets, grid := o.Targets, o.Batches
	if len(targets) == 0 {
		operations := o.Operations
		if len(operations) == 0 {
			operations = make([]kernels.Operation, 1) // the default
		}
		for _, operation := range operations {
			for _, spec := range preset.Models {
				if !operation.HasWeights() {
					spec, _, _ = strings.Cut(spec, ":") // of projections
				}
				t, err := ModelTargets(operation, spec, 1)
				if err != nil {
					return nil, err
				}
				targets = append(targets, t...)
			}
		}
	}
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
			if err := b.target(d, t); err != nil {
				return nil, err
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
	budget := o.Budget
	if budget == 0 && len(o.Batches) == 0 {
		budget = preset.Budget
		if o.Deadline > 0 { // with the preset's margin for what the estimate omits
			budget = min(budget, time.Duration(float64(o.Deadline)*float64(preset.Budget)/float64(preset.Deadline)))
		}
	}
	if budget > 0 && est != nil {
		p.thin(ctx, est, llcOf(devices), budget, o.Deadline > 0)
	}
	if o.Deadline > 0 && est != nil && len(p.Traffic)+len(p.Recorded) == 0 {
		p.spread(est, llcOf(devices))
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if o.Deadline == 0 {
		p.deadline(o, preset, est, llcOf(devices))
	}
	if p.Deadline == 0 && !infer {
		p.Step = 0
	}
	if err := p.Validate(); err != nil {
		return p, err
	}
	return p, p.checkShard()
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

func llcOf(devices []kernels.Device) map[string]int64 {
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
	at      map[results.SeriesKey]int // index of a series in the plan
	merged  map[int]bool              // series with added Ms, unordered until sort
}

type refusal struct {
	kernel string
	dtype  kernels.DType
	err    error
}

// unmet returns why no series of a requested kernel or data type can be measured, or nil.
func (b *planner) unmet() error {
	for _, r := range b.refused {
		kernel := slices.ContainsFunc(b.plan.Series, func(s PlannedSeries) bool { return s.Kernel == r.kernel })
		dtype := slices.ContainsFunc(b.plan.Series, func(s PlannedSeries) bool { return s.DType == r.dtype })
		if !kernel || !dtype {
			return r.err
		}
	}
	return nil
}

// cut counts the Ms left out of a kernel's grids. Equal grids count as one.
type cut struct {
	kernel, device    string
	most              int // largest M kept, 0 if gaps were left out
	left, grid, count int // batches left out, batches of the grid, series
}

func (b *planner) cut(s PlannedSeries, kept, ms Batches) {
	c := cut{kernel: s.Kernel, device: s.Device, left: len(ms) - len(kept), grid: len(ms)}
	if slices.Equal(kept, ms[:len(kept)]) {
		c.most = kept[len(kept)-1]
	}
	for i := range b.cuts {
		same := b.cuts[i]
		if same.count = 0; same == c {
			b.cuts[i].count++
			return
		}
	}
	c.count = 1
	b.cuts = append(b.cuts, c)
}

func (b *planner) noteCuts() {
	for _, c := range b.cuts {
		what, series := "does not take every M", fmt.Sprintf("%d series", c.count)
		if c.most > 0 {
			what = fmt.Sprintf("takes M up to %d of the grid", c.most)
		}
		if c.count == 1 {
			series = "one series"
		}
		b.note(c.kernel+" on "+c.device, "%s: %d of %d batches of %s are skipped", what, c.left, c.grid, series)
	}
}

// unsupported returns an error that names requested data types without a kernel.
func (b *planner) unsupported(devices []kernels.Device, targets []Target) error {
	var none []string
	for _, dtype := range b.options.DTypes {
		supported := slices.ContainsFunc(devices, func(d kernels.Device) bool {
			return slices.ContainsFunc(targets, func(t Target) bool {
				return slices.ContainsFunc(d.Kernels(t.Operation), func(k kernels.Kernel) bool {
					return slices.ContainsFunc(b.weightsOf(d, t), func(weights kernels.WeightFormat) bool {
						s, err := t.subject(dtype, b.options.Layout, weights)
						return err == nil && k.Supports(kernels.Task{Subject: s, M: 1}) == nil
					})
				})
			})
		})
		if !supported {
			none = append(none, string(dtype))
		}
	}
	if len(none) == 0 {
		return nil
	}
	ids := make([]string, len(devices))
	for i, d := range devices {
		ids[i] = d.Spec().ID
	}
	with := ""
	if !slices.Contains(b.weights(), kernels.WeightFormat{}) {
		var forms []string
		for _, w := range b.weights() {
			forms = append(forms, w.String())
		}
		with = " with weights " + strings.Join(forms, ", ")
	}
	return fmt.Errorf("plan: no case to measure: no kernel on %s supports %s%s", strings.Join(ids, ", "), strings.Join(none, ", "), with)
}

func (b *planner) note(what, format string, args ...any) {
	b.add(Note{What: what, Why: fmt.Sprintf(format, args...)})
}

func (b *planner) leftOut(what, format string, args ...any) {
	b.add(Note{What: what, LeftOut: true, Why: fmt.Sprintf(format, args...)})
}

func (b *planner) add(n Note) {
	if b.noted == nil {
		b.noted = map[Note]bool{}
	}
	if !b.noted[n] {
		b.noted[n] = true
		b.plan.Notes = append(b.plan.Notes, n)
	}
}

func (b *planner) kernels(d kernels.Device, o kernels.Operation) []kernels.Kernel {
	var out []kernels.Kernel
	chosen := b.chosen(d, o)
	choosing := false
	for _, k := range chosen {
		out = append(out, k)
		if _, ours := k.(kernels.Planned); kernels.CandidateOf(k, 1) == nil || ours && len(b.options.Kernels) == 0 {
			continue
		}
		choosing = true
		for n := range b.algorithms() {
			next := kernels.CandidateOf(k, n+1)
			if !slices.ContainsFunc(chosen, func(k kernels.Kernel) bool { return k.Name() == next.Name() }) {
				out = append(out, next)
			}
		}
	}
	if b.options.Algorithms > 0 && len(chosen) > 0 && !choosing {
		b.note("other algorithms on "+d.Spec().ID, "no kernel of the plan there offers a choice")
	}
	return out
}

// The preset's choices apply only without requested kernels.
func (b *planner) algorithms() int {
	if b.options.Algorithms == 0 && len(b.options.Kernels) == 0 {
		return b.preset.Algorithms
	}
	return b.options.Algorithms
}

func (b *planner) chosen(d kernels.Device, o kernels.Operation) []kernels.Kernel {
	var out []kernels.Kernel
	if len(b.options.Kernels) > 0 {
		if b.found == nil {
			b.found, b.missing = map[string]bool{}, map[string]error{}
		}
		for _, name := range b.options.Kernels {
			named, err := b.named(d, o, name)
			if err != nil {
				b.missing[name] = err
				continue
			}
			b.found[name] = true
			for _, k := range named {
				if !slices.ContainsFunc(out, func(have kernels.Kernel) bool { return have.Name() == k.Name() }) {
					out = append(out, k)
				}
			}
		}
		return out
	}
	all := d.Kernels(o)
	left := func(k kernels.Kernel) bool { return o.OnRequest(k.Name()) != "" }
	if !slices.ContainsFunc(all, func(k kernels.Kernel) bool { return !left(k) }) {
		left = func(kernels.Kernel) bool { return false } // there is no other kernel
	}
	libraries := b.options.Libraries && slices.ContainsFunc(all, func(k kernels.Kernel) bool { return !left(k) && k.Name() != ours })
	for _, k := range all {
		if libraries && k.Name() == ours {
			continue
		}
		if left(k) {
			b.leftOut("kernel "+k.Name()+" on "+d.Spec().ID, "%s", o.OnRequest(k.Name()))
			continue
		}
		out = append(out, k)
	}
	slices.SortStableFunc(out, func(a, c kernels.Kernel) int {
		return cmp.Compare(rank(a.Name() != b.options.First), rank(c.Name() != b.options.First))
	})
	if len(all) == 0 {
		b.note(o.String()+" on "+d.Spec().ID, "no kernel computes it")
	}
	return out
}

const ours = "auto"

func rank(b bool) int {
	if b {
		return 1
	}
	return 0
}

func (b *planner) named(d kernels.Device, o kernels.Operation, name string) ([]kernels.Kernel, error) {
	if name == LadderKernels {
		if all := rungs(o, d.Kernels(o)); len(all) > 0 {
			return all, nil
		}
		return nil, fmt.Errorf("%s has no kernels of our ladder for %v", d.Spec().ID, o)
	}
	k, err := kernels.Find(d, o, name)
	if err != nil {
		return nil, err
	}
	return []kernels.Kernel{k}, nil
}

func (b *planner) target(d kernels.Device, t Target) error {
	if t.NotMeasured != "" {
		part := t.part()
		b.add(Note{What: part.String(), LeftOut: true, Why: t.NotMeasured, Part: part})
		return nil
	}
	dtypes, chosen := b.options.DTypes, true
	if t.DType != "" {
		dtypes = []kernels.DType{t.DType}
	}
	if len(dtypes) == 0 {
		dtypes, chosen = b.dtypes(d, t), false
	}
	ms := b.grid
	if t.M > 0 {
		ms = Batches{t.M}
		if b.options.Neighbours {
			ms = withNeighbours(t.M)
		}
	}
	taken := map[kernels.DType]int{}
	for _, g := range b.kernels(d, t.Operation) {
		for _, dtype := range dtypes {
			if dtype.Size() == 0 {
				return fmt.Errorf("unknown dtype %q: expected one of %v", dtype, kernels.DTypes())
			}
			if b.preset.MaxKernels > 0 && len(b.options.Kernels) == 0 && taken[dtype] >= b.preset.MaxKernels {
				b.leftOut(fmt.Sprintf("kernel %s/%s on %s", g.Name(), dtype, d.Spec().ID), "preset %s takes %d kernels of a type",
					b.preset.Name, b.preset.MaxKernels)
				continue
			}
			added := false
			for _, weights := range b.weightsOf(d, t) {
				subject, err := t.subject(dtype, b.options.Layout, weights)
				if err != nil && len(b.options.Weights) == 0 && weights != (kernels.WeightFormat{}) {
					b.note(t.Name, "its weights are planned plain, not as they are stored: %v", err)
					subject, err = t.subject(dtype, b.options.Layout, kernels.WeightFormat{})
				}
				if err != nil && !chosen && dtype != kernels.FP16 && dtype != kernels.BF16 {
					b.leftOut(g.Name()+" on "+d.Spec().ID, "%v", err)
					continue
				}
				if err != nil {
					return err
				}
				added = b.series(d, g, t, subject, ms, chosen) || added
			}
			if added {
				taken[dtype]++
			}
		}
	}
	return nil
}

func (b *planner) weights() []kernels.WeightFormat {
	if len(b.options.Weights) == 0 {
		return []kernels.WeightFormat{{}}
	}
	return b.options.Weights
}

// weightsOf returns the requested forms of a target's weights, or its stored one if a kernel supports it.
func (b *planner) weightsOf(d kernels.Device, t Target) []kernels.WeightFormat {
	if len(b.options.Weights) > 0 {
		return b.options.Weights
	}
	if t.Stored == (kernels.WeightFormat{}) || b.takes(d, t, t.Stored, kernels.FP16, kernels.BF16) {
		return []kernels.WeightFormat{t.Stored}
	}
	b.note(t.Model, "its weights are stored as %v, which no kernel on %s takes: planned plain", t.Stored, d.Spec().ID)
	return []kernels.WeightFormat{{}}
}

// dtypes returns a target's stored type if a kernel supports it, else the preset's.
func (b *planner) dtypes(d kernels.Device, t Target) []kernels.DType {
	if t.StoredType == "" || len(b.options.Weights) > 0 {
		return b.preset.dtypes(d)
	}
	if b.takes(d, t, kernels.WeightFormat{}, t.StoredType) {
		return []kernels.DType{t.StoredType}
	}
	b.note(t.Model, "its weights are stored as %s, which no kernel on %s takes: planned as other types", t.StoredType, d.Spec().ID)
	return b.preset.dtypes(d)
}

func (b *planner) takes(d kernels.Device, t Target, weights kernels.WeightFormat, dtypes ...kernels.DType) bool {
	return slices.ContainsFunc(dtypes, func(dtype kernels.DType) bool {
		s, err := t.subject(dtype, b.options.Layout, weights)
		return err == nil && slices.ContainsFunc(d.Kernels(t.Operation), func(k kernels.Kernel) bool {
			return k.Supports(kernels.Task{Subject: s, M: 1}) == nil
		})
	})
}

// series adds the supported ms of a subject; chosen is true for a requested data type. It reports whether it
// added a series.
func (b *planner) series(d kernels.Device, g kernels.Kernel, of Target, subject kernels.Subject, ms Batches, chosen bool) bool {
	s := PlannedSeries{Name: of.Name, Model: of.Model, SeriesKey: results.SeriesKey{
		Device: d.Spec().ID, Kernel: g.Name(), Subject: subject, Regime: b.plan.Regime,
		Threads: b.options.Threads, PackInside: b.options.PackInside && subject.Operation.HasWeights(),
	}}
	if !d.Spec().Kind.Facts().Host {
		s.Threads = 0
	}
	if f, wrong := d.Spec().WrongResults(g.Name(), subject.DType); wrong && subject.Operation.IsProduct() {
		what := fmt.Sprintf("kernel %s/%s on %s", g.Name(), subject.DType, d.Spec().ID)
		if !slices.Contains(b.options.Kernels, g.Name()) {
			b.leftOut(what, "its results are wrong: %s", f.Text)
			return false
		}
		b.note(what, "measured since it is named, but its results are wrong: %s", f.Text)
	}
	s.Infer = b.infer && infers(subject.Operation, ms)
	kept, err := b.supported(g, s, ms)
	var no *kernels.Unsupported
	if errors.As(err, &no) && len(kept) == 0 && chosen && slices.Contains(b.options.Kernels, g.Name()) {
		b.refused = append(b.refused, refusal{g.Name(), subject.DType, err}) // the user requested both by name
	}
	if err != nil && len(kept) > 0 {
		b.cut(s, kept, ms)
	} else if err != nil {
		b.note(g.Name()+" on "+d.Spec().ID, "%v", err)
	}
	if len(kept) == 0 || b.merge(s, kept) {
		return false
	}
	s.Ms = kept
	b.plan.Series = append(b.plan.Series, s)
	return true
}

// merge adds ms to an existing equal series. Projections of one model often have equal shapes, and each M of
// a recorded workload is a target.
func (b *planner) merge(also PlannedSeries, ms Batches) bool {
	key := also.SeriesKey
	i, there := b.at[key]
	if !there {
		if b.at == nil {
			b.at, b.merged = map[results.SeriesKey]int{}, map[int]bool{}
		}
		b.at[key] = len(b.plan.Series)
		return false
	}
	s := &b.plan.Series[i]
	s.Name = bothNames(s.Name, also.Name)
	if !b.merged[i] {
		s.Ms, b.merged[i] = slices.Clone(s.Ms), true // which others share
	}
	s.Ms = append(s.Ms, ms...)
	return true
}

// bothNames joins two names of one model in the syntax of [ParseModel]: "llama3-8b:k_proj+v_proj". For
// different models or ranks it returns the first.
func bothNames(a, b string) string {
	model, parts, ok := strings.Cut(a, ":")
	otherModel, part, also := strings.Cut(b, ":")
	parts, ranks, _ := strings.Cut(parts, " ")
	part, otherRanks, _ := strings.Cut(part, " ")
	if !ok || !also || model != otherModel || ranks != otherRanks || slices.Contains(strings.Split(parts, "+"), part) {
		return a
	}
	name := model + ":" + parts + "+" + part
	if ranks != "" {
		name += " " + ranks
	}
	return name
}

func (b *planner) sort() {
	for i := range b.merged {
		s := &b.plan.Series[i]
		slices.Sort(s.Ms)
		s.Ms = slices.Compact(s.Ms)
	}
}
