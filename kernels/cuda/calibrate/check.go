package calibrate

import (
	"context"

	"github.com/gemmaudit/gemmaudit/kernels/cuda/calibration"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/candidates"
)

// rivals is how many plans of least expected time are timed of each set of constants, the pick among them.
const rivals = 4

// check times what the constants before and after pick for cases that were held out, and their rivals, as long as there is time.
func (b *bench) check(ctx context.Context, r *Result) error {
	b.tell("check on other products")
	for _, c := range Held(b.arch, b.o.Seed) {
		if b.past(checkedEnd) {
			return nil
		}
		picks := Picks{}
		var first [2]plan
		for i, by := range []*calibration.Card{r.Before, r.After} {
			all, err := expect(b.arch, c, by)
			if err != nil {
				return err
			}
			plans := fastest(c, all)
			if len(plans) == 0 {
				break
			}
			first[i] = plans[0]
			picks.add(plans[:min(rivals, len(plans))]...)
		}
		if picks.count() == 0 {
			continue
		}
		times, err := b.card.TimePlans(ctx, c, picks, checkRounds, b.o.Seed)
		if err != nil {
			return err
		}
		b.times = append(b.times, times...)
		r.Checks = append(r.Checks, compare(c, first, times))
	}
	return nil
}

// compare finds the picks and the best among times.
func compare(c candidates.Case, first [2]plan, times []candidates.Time) Check {
	check := Check{Case: c}
	for _, t := range times {
		this := Timed{t.Family, t.Label, t.Seconds}
		for i, to := range []*Timed{&check.Before, &check.After} {
			if first[i].family == t.Family && first[i].index == t.Index {
				*to = this
			}
		}
		if check.Best.Seconds == 0 || t.Seconds < check.Best.Seconds {
			check.Best = this
		}
	}
	return check
}
