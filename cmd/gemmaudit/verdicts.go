package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/gemmaudit/gemmaudit/results"
	"github.com/gemmaudit/gemmaudit/rules"
)

// The keys under which a run keeps what asking the device again has shown.
const (
	stateAudit  = "verdict-audit"
	stateSplits = "verdict-splits"
	// stateSearch is how the run command was told to seek remedies.
	stateSearch = "remedy-search"
)

// keep stores what a device has shown, for commands that do not ask it.
func keep[T any](run *results.Run, key string, shown *T) error {
	text, err := json.Marshal(shown)
	if err != nil {
		return fmt.Errorf("%s: %s: %w", run.Path(), key, err)
	}
	return run.SetState(key, string(text))
}

// unreadable is what a run keeps under a key and can't be read: the file is damaged there.
type unreadable struct {
	path, key string
	err       error
}

func (e *unreadable) Error() string {
	return fmt.Sprintf("%s: the run is damaged: what it keeps as %q can't be read: %v", e.path, e.key, e.err)
}

func (e *unreadable) Unwrap() error { return e.err }

// HintText says how to do without it, and how to get it anew.
func (e *unreadable) HintText() string {
	switch e.key {
	case stateSearch:
		return fmt.Sprintf("`%s` executes remedies, on the machine of the run", commandLine([]string{"splits", e.path, "--execute"}))
	case stateSplits:
		return fmt.Sprintf("`%s` executes remedies anew, on the machine of the run; `%s` predicts them without",
			commandLine([]string{"splits", e.path, "--execute"}), commandLine([]string{"splits", e.path, "--execute=false"}))
	}
	return fmt.Sprintf("`%s` measures suspects again, on the machine of the run; `%s` judges without what is kept",
		commandLine([]string{"audit", e.path, "--confirm"}), commandLine([]string{"audit", e.path, "--confirm=false"}))
}

// kept returns what was stored under a key, nil when nothing was.
func kept[T any](run *results.Run, key string) (*T, error) {
	text, ok, err := run.State(key)
	if err != nil || !ok {
		return nil, err
	}
	shown := new(T)
	err = results.CheckJSON(text)
	if err == nil {
		err = json.Unmarshal([]byte(text), shown)
	}
	if err != nil {
		return nil, &unreadable{run.Path(), key, err}
	}
	return shown, nil
}

// keepProof adds what an audit has proven to what is kept of the run. An audit that an
// interruption cut short proves nothing: whole proof from before is worth more. One that
// only ran out of its time does. Proof that can't be read any more gives way.
func (a *app) keepProof(ctx context.Context, run *results.Run, proof *rules.Proof) error {
	if errors.Is(ctx.Err(), context.Canceled) {
		return nil
	}
	all, err := kept[rules.Proof](run, stateAudit)
	var damaged *unreadable
	if errors.As(err, &damaged) {
		a.warnf("%v; it is replaced", err)
	} else if err != nil {
		return err
	}
	if all == nil {
		all = &rules.Proof{Rules: []rules.RuleProof{}}
	}
	all.Renew(proof)
	return keep(run, stateAudit, all)
}

// undone is kept proof that a command could not use, with the command that renews it.
type undone struct {
	path string
	why  []rules.Undone
	hint string
}

// warnUndone says on stderr by which keys kept proof is undone.
func (a *app) warnUndone(u undone) {
	for _, w := range u.why {
		of := "executed remedies"
		if len(w.Rules) > 0 {
			names := make([]string, len(w.Rules))
			for i, r := range w.Rules {
				names[i] = string(r)
			}
			of = "findings of " + strings.Join(names, ", ")
		}
		a.warnf("%s: the proof kept of %s is undone: %s", u.path, of, w)
	}
}

// err is the outcome of a command that had no other: nil when no proof was undone.
func (u undone) err() error {
	if len(u.why) == 0 {
		return nil
	}
	words := make([]string, 0, len(u.why))
	for i, w := range u.why {
		if i == 3 {
			words = append(words, fmt.Sprintf("and %d more", len(u.why)-i))
			break
		}
		words = append(words, w.String())
	}
	return hint(inconclusivef("%s: kept proof is undone: %s", u.path, strings.Join(words, ", ")), "%s", u.hint)
}

// sweepVerdict judges a run without asking the device. What was proven of it before
// counts for every rule whose proof holds by cfg, unless the run is to be judged afresh.
func (a *app) sweepVerdict(ctx context.Context, run *results.Run, data rules.Data, cfg rules.Config, afresh bool) (*rules.Audit, undone, error) {
	u := undone{path: run.Path(), hint: "`gemmaudit audit --confirm` renews it; `gemmaudit audit --confirm=false` judges without it"}
	bare := cfg
	bare.Waivers = nil
	audit, err := rules.RunAudit(ctx, data, bare, nil)
	if err != nil {
		return nil, u, err
	}
	if !afresh {
		proof, err := kept[rules.Proof](run, stateAudit)
		if err != nil {
			return nil, u, err
		}
		loaded, err := run.Load()
		if err != nil {
			return nil, u, err
		}
		if (proof == nil || len(proof.Rules) == 0) && loaded.Confirmed > 0 {
			a.warnf("%s: suspects were measured again, and the proof is not in the run: it was interrupted, or merged away", run.Path())
			u.why = []rules.Undone{{Key: "the proof", Old: "measured", New: "missing", Rules: cfg.On()}}
		} else if proof != nil && proof.Rules == nil {
			a.warnf("%s: the proof that it keeps was stored by an earlier version and can't be used", run.Path())
			u.why = []rules.Undone{{Key: "the form of kept proof", Old: "that of an earlier version", New: "another", Rules: cfg.On()}}
		} else if proof != nil {
			u.why = audit.Accept(proof, cfg, data.Samples())
			a.warnUndone(u)
		}
	}
	audit.Waive(cfg, data.Keys())
	audit.AddSustained(data, cfg)
	return audit, u, nil
}

// keepRemedies stores executed remedies, under the conditions of keepProof. What was proven before gives way to nothing
// only where the same search was asked for, and to another search only where that was asked for or it holds no more.
func (a *app) keepRemedies(ctx context.Context, run *results.Run, remedies *rules.ExecutedRemedies, asked bool) error {
	if errors.Is(ctx.Err(), context.Canceled) {
		return nil
	}
	was, err := kept[rules.ExecutedRemedies](run, stateSplits)
	var damaged *unreadable
	if errors.As(err, &damaged) {
		a.warnf("%v; it is replaced", err)
	} else if err != nil {
		return err
	}
	if was != nil && was.Result != nil && len(was.Result.Stretches) > 0 {
		before, found := len(was.Result.Stretches), len(remedies.Result.Stretches)
		proven := plural(before, "proven remedy", "proven remedies")
		switch other := len(searchChanges(remedies.Search, was.Search)) > 0; {
		case found == 0 && (other || !asked):
			a.warnf("%s: this search has found no remedy that pays; the run keeps the %s from before", run.Path(), proven)
			return nil
		case other && !asked && was.SameSettings(remedies):
			a.notef("%s keeps the %s of another search; --execute puts these in their place", run.Path(), proven)
			return nil
		case found == 0:
			a.warnf("%s: the %s that it kept no longer pay, and are removed", run.Path(), proven)
		case other, found < before:
			a.warnf("%s: the %s that it kept are replaced by %d", run.Path(), proven, found)
		}
	}
	return keep(run, stateSplits, remedies)
}

// keptRemedies returns the remedies that were executed before, nil when none were or
// when they do not hold by cfg.
func (a *app) keptRemedies(run *results.Run, data rules.Data, cfg rules.Config) (*rules.ExecutedRemedies, undone, error) {
	u := undone{path: run.Path(), hint: "`gemmaudit splits --execute` renews it"}
	remedies, err := kept[rules.ExecutedRemedies](run, stateSplits)
	if err != nil || remedies == nil {
		return nil, u, err
	}
	if remedies.Result == nil || remedies.Settings == nil {
		a.warnf("%s: the executed remedies that it keeps were stored by an earlier version and can't be used", run.Path())
		u.why = []rules.Undone{{Key: "the form of kept remedies", Old: "that of an earlier version", New: "another"}}
		return nil, u, nil
	}
	if u.why = remedies.Undone(cfg, data.Samples()); len(u.why) > 0 {
		a.warnUndone(u)
		return nil, u, nil
	}
	remedies.Result.Run = filepath.Base(run.Path()) // the file may have been renamed
	remedies.Result.Weigh(data)
	remedies.Result.AddSustained(data, cfg)
	return remedies, u, nil
}
