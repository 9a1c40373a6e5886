package main

import (
	"slices"
	"strconv"
	"strings"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/results"
	"github.com/gemmaudit/gemmaudit/rules/advice"
	"github.com/gemmaudit/gemmaudit/sweep"
)

// need returns the products in a pass of the model. planned holds the runs' series, which name the model if
// no flag does.
func (o *adviseOptions) need(planned []results.PlannedSeries) (advice.Need, advice.Subject, error) {
	fail := func(err error) (advice.Need, advice.Subject, error) { return advice.Need{}, advice.Subject{}, err }
	spec := o.model
	if spec == "" {
		var err error
		if spec, err = plannedModel(planned); err != nil {
			return fail(err)
		}
	}
	model, err := sweep.FindModel(spec)
	if err != nil {
		return fail(badFlag("model", err))
	}
	if err := model.Uniform(); err != nil && model.Layers > 0 {
		return fail(hint(badFlag("model", err), "advise needs a model with identical layers, and runs of all their products"))
	}
	need, err := advice.NeedOf(model, sweep.Selector(spec), o.tp)
	if err != nil {
		return fail(badFlag("model", err))
	}
	need.Kernel, need.Experts, _ = strings.Cut(o.kernel, ",")
	if need.DType = parsed(&err, "dtype", o.dtype, kernels.ParseDType); err != nil {
		return fail(err)
	}
	if o.sequences != "all" {
		n, err := strconv.Atoi(o.sequences)
		if err != nil || n < 1 || n > results.MaxM {
			return fail(usagef("--sequences: %q, expected all or 1 to %d", o.sequences, results.MaxM))
		}
		need.Sequences = n
	}
	subject := advice.Subject{Model: model.Name, Layers: model.Layers, Sequences: need.Sequences}
	if o.tp > 1 {
		subject.TP = o.tp
	}
	return need, subject, nil
}

func plannedModel(planned []results.PlannedSeries) (string, error) {
	var models []string
	for _, s := range planned {
		if s.Model != "" && !slices.Contains(models, s.Model) {
			models = append(models, s.Model)
		}
	}
	switch len(models) {
	case 1:
		if _, err := sweep.FindModel(models[0]); err != nil {
			return "",
				hint(usagef("the runs are of model %s, which is not built in", models[0]), "give --model the path of its config.json")
		}
		return models[0], nil
	case 0:
		return "", hint(usagef("the runs have no model name"), "give --model, as in --model mistral-7b")
	}
	return "", hint(usagef("the runs are of %d models: %s", len(models), strings.Join(models, ", ")), "give --model")
}
