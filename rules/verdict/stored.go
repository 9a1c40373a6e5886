// Package verdict concludes: which stored proof still holds, and which results make a command fail.
package verdict

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/gemmaudit/gemmaudit/results"
	"github.com/gemmaudit/gemmaudit/rules"
	"github.com/gemmaudit/gemmaudit/rules/infer"
	"github.com/gemmaudit/gemmaudit/rules/outcome"
	"github.com/gemmaudit/gemmaudit/rules/remedy"
)

// The keys in a run for what was asked for and measured again.
const (
	StateAudit  = "verdict-audit"
	StateSplits = "verdict-splits"
	StateSearch = "remedy-search" // the settings of run's search for remedies
)

// Keep stores a value in a run, for commands that do not measure.
func Keep[T any](run *results.Run, key string, value *T) error {
	text, err := json.Marshal(value)
	if err != nil {
		return fmt.Errorf("%s: %s: %w", run.Path(), key, err)
	}
	return run.SetState(key, string(text))
}

// Kept returns the value stored under a key, or nil.
func Kept[T any](run *results.Run, key string) (*T, error) {
	text, ok, err := run.State(key)
	if err != nil || !ok {
		return nil, err
	}
	value := new(T)
	err = results.CheckJSON(text)
	if err == nil {
		err = json.Unmarshal([]byte(text), value)
	}
	if err != nil {
		return nil, &unreadable{run.Path(), key, err}
	}
	return value, nil
}

type unreadable struct {
	path, key string
	err       error
}

func (e *unreadable) Error() string {
	return fmt.Sprintf("%s: the run is damaged: its state %q can't be read: %v", e.path, e.key, e.err)
}

func (e *unreadable) Unwrap() error { return e.err }

// HintText says how to do without the state, and how to renew it.
func (e *unreadable) HintText() string {
	line := func(command, flag string) string { return rules.CommandLine("gemmaudit "+command, e.path, flag) }
	switch e.key {
	case StateSearch:
		return fmt.Sprintf("`%s` executes remedies on the machine of the run", line("splits", "--execute"))
	case StateSplits:
		return fmt.Sprintf("`%s` executes remedies again on the machine of the run; `%s` only predicts", line("splits", "--execute"),
			line("splits", "--execute=false"))
	}
	return fmt.Sprintf("`%s` measures suspects again on the machine of the run; `%s` ignores stored proof",
		line("audit", "--confirm"), line("audit", "--confirm=false"))
}

// Outdated is stored proof that can't be used, with the command that renews it.
type Outdated struct {
	Path string
	Why  []rules.Undone
	Hint string
}

// Grounds are the reasons for a missing verdict; nil if no proof is outdated.
func (o Outdated) Grounds() []outcome.Ground {
	if len(o.Why) == 0 {
		return nil
	}
	var words []string
	for i, w := range o.Why {
		if i == 3 {
			words = append(words, fmt.Sprintf("and %d more", len(o.Why)-i))
			break
		}
		words = append(words, w.String())
	}
	return []outcome.Ground{{Text: fmt.Sprintf("%s: stored proof no longer holds: %s", o.Path, strings.Join(words, ", ")), Hint: o.Hint}}
}

// Store reads and writes the proof that a run keeps. Warn and Note tell the user what becomes of it.
type Store struct {
	Run        *results.Run
	Warn, Note func(format string, args ...any)
}

// warn names the settings that invalidate stored proof.
func (s Store) warn(o Outdated) {
	for _, w := range o.Why {
		of := "executed remedies"
		if len(w.Rules) > 0 {
			of = "findings of " + rules.RuleList(w.Rules)
		}
		s.Warn("%s: stored proof of %s no longer holds: %s", o.Path, of, w)
	}
}

// stored is [Kept], except that unreadable state counts as missing because it is replaced.
func stored[T any](s Store, key string) (*T, error) {
	value, err := Kept[T](s.Run, key)
	var damaged *unreadable
	if errors.As(err, &damaged) {
		s.Warn("%v; it is replaced", err)
		err = nil
	}
	return value, err
}

// KeepProof adds an audit's proof to the run's stored proof. An interrupted audit has no proof, so complete
// earlier proof has priority; an audit that ran out of time does prove. Unreadable proof is replaced.
func (s Store) KeepProof(ctx context.Context, proof *rules.Proof) error {
	if errors.Is(ctx.Err(), context.Canceled) {
		return nil
	}
	all, err := stored[rules.Proof](s, StateAudit)
	if err != nil {
		return err
	}
	if all == nil {
		all = &rules.Proof{Rules: []rules.RuleProof{}}
	}
	all.Renew(proof)
	return Keep(s.Run, StateAudit, all)
}

// Audit judges a run without measuring. Earlier proof counts for every rule where it is valid under cfg,
// unless afresh is set.
func (s Store) Audit(ctx context.Context, data infer.Data, cfg rules.Config, afresh bool) (*rules.Audit, Outdated, error) {
	o := Outdated{Path: s.Run.Path(), Hint: "`gemmaudit audit --confirm` renews it; `gemmaudit audit --confirm=false` ignores it"}
	bare := cfg
	bare.Waivers = nil
	audit, err := rules.RunAudit(ctx, data, bare, nil)
	if err != nil {
		return nil, o, err
	}
	if !afresh {
		proof, err := Kept[rules.Proof](s.Run, StateAudit)
		if err != nil {
			return nil, o, err
		}
		loaded, err := s.Run.Load()
		if err != nil {
			return nil, o, err
		}
		switch {
		case (proof == nil || len(proof.Rules) == 0) && loaded.Confirmed > 0:
			s.Warn("%s: suspects were measured again, but their proof is missing: confirmation was interrupted, or the run was merged",
				o.Path)
			o.Why = []rules.Undone{{Key: "the proof", Old: "measured", New: "missing", Rules: cfg.On()}}
		case proof == nil:
		case proof.Rules == nil:
			s.Warn("%s: its proof was stored by an earlier version and can't be used", o.Path)
			o.Why = []rules.Undone{{Key: "format of stored proof", Old: "from an earlier version", New: "another", Rules: cfg.On()}}
		default:
			o.Why = audit.Accept(proof, cfg, data.Samples())
			s.warn(o)
		}
	}
	audit.Waive(cfg, data.Keys())
	audit.AddSustained(data, cfg)
	return audit, o, nil
}

// KeepRemedies stores executed remedies under KeepProof's conditions. An empty result replaces earlier proof
// only if the same search was requested. Another search replaces it only if asked is set or the proof is
// outdated.
func (s Store) KeepRemedies(ctx context.Context, remedies *remedy.Executed, asked bool) error {
	if errors.Is(ctx.Err(), context.Canceled) {
		return nil
	}
	was, err := stored[remedy.Executed](s, StateSplits)
	if err != nil {
		return err
	}
	if was != nil && was.Result != nil && len(was.Result.Stretches) > 0 {
		before, found := len(was.Result.Stretches), len(remedies.Result.Stretches)
		path, proven := s.Run.Path(), count(before, "proven remedy", "proven remedies")
		switch other := len(SearchChanges(remedies.Search, was.Search)) > 0; {
		case found == 0 && (other || !asked):
			s.Warn("%s: this search found no remedy that pays; the run keeps its %s", path, proven)
			return nil
		case other && !asked && was.SameSettings(remedies):
			s.Note("%s keeps the %s of another search; --execute replaces them", path, proven)
			return nil
		case found == 0:
			s.Warn("%s: its stored %s no longer pay, and are removed", path, proven)
		case other, found < before:
			s.Warn("%s: its stored %s are replaced by %d", path, proven, found)
		}
	}
	return Keep(s.Run, StateSplits, remedies)
}

// Remedies returns the remedies executed before, nil if missing or invalid under cfg.
func (s Store) Remedies(data infer.Data, cfg rules.Config) (*remedy.Executed, Outdated, error) {
	o := Outdated{Path: s.Run.Path(), Hint: "`gemmaudit splits --execute` renews it"}
	remedies, err := Kept[remedy.Executed](s.Run, StateSplits)
	if err != nil || remedies == nil {
		return nil, o, err
	}
	if remedies.Result == nil || remedies.Settings == nil {
		s.Warn("%s: its executed remedies were stored by an earlier version and can't be used", o.Path)
		o.Why = []rules.Undone{{Key: "format of stored remedies", Old: "from an earlier version", New: "another"}}
		return nil, o, nil
	}
	if o.Why = remedies.Undone(cfg, data.Samples()); len(o.Why) > 0 {
		s.warn(o)
		return nil, o, nil
	}
	remedies.Result.Run = filepath.Base(o.Path) // the file may have been renamed
	remedies.Result.Limit(data, remedies.Search.Kernels)
	remedies.Result.Weigh(data)
	remedies.Result.AddSustained(data, cfg)
	return remedies, o, nil
}
