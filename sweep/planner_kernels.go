package sweep

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/gemmaudit/gemmaudit/kernels"
)

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
			if name == ours {
				// What overlap is worth is of interest where auto runs without.
				if k, err := kernels.Find(d, o, kernels.Overlapping); err == nil {
					named = append(named, k)
				}
			}
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
	own := func(k kernels.Kernel) bool { return k.Name() == ours || k.Name() == kernels.Overlapping }
	libraries := b.options.Libraries && slices.ContainsFunc(all, func(k kernels.Kernel) bool { return !left(k) && !own(k) })
	for _, k := range all {
		if libraries && own(k) {
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

type refusal struct {
	device kernels.Device
	kernel string
	dtype  kernels.DType
	err    error
}

// unmet returns why no series of a requested kernel or data type can be measured, or nil. A file is requested as a whole:
// its kernels may be for different types.
func (b *planner) unmet() error {
	for _, r := range b.refused {
		file, versions := "", r.device.Spec().Versions
		if v := versions[r.kernel]; kernels.IsFileVersion(v) {
			file = v
		}
		kernel := slices.ContainsFunc(b.plan.Series, func(s PlannedSeries) bool {
			return s.Kernel == r.kernel || file != "" && versions[s.Kernel] == file
		})
		dtype := slices.ContainsFunc(b.plan.Series, func(s PlannedSeries) bool { return s.DType == r.dtype })
		if !kernel || !dtype {
			return r.err
		}
	}
	return nil
}

// tried keeps a kernel's refusal.
func (b *planner) tried(kernel string, why error) {
	b.refusals = slices.DeleteFunc(b.refusals, func(n Note) bool { return n.What == kernel })
	b.refusals = append(b.refusals, Note{What: kernel, Why: why.Error()})
}

// untaken is the error of a plan of which no kernel takes a case.
func (b *planner) untaken() error {
	words := make([]string, len(b.refusals))
	for i, n := range b.refusals {
		words[i] = n.String()
	}
	return fmt.Errorf("plan: no case to measure: %s", strings.Join(words, "; "))
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
