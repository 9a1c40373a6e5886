package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/gemmaudit/gemmaudit/results"
	"github.com/gemmaudit/gemmaudit/rules"
)

// The keys under which a run keeps what asking the device again has shown: a
// verdict rests on which samples were compared with which, so it is kept whole.
const (
	stateAudit  = "verdict-audit"
	stateSplits = "verdict-splits"
)

// verdict is an audit or a search for remedies as it is kept in a run. It holds
// for the rules and the samples that it was made with.
type verdict[T any] struct {
	Basis  string `json:"basis"`
	Result *T     `json:"result"`
}

// basisOf identifies the rules and the sweep's samples that a verdict rests on.
// Waivers are among the rules, and so is the day when there are any.
func basisOf(run *results.Run, cfg rules.Config) (string, error) {
	if len(cfg.Waivers) == 0 {
		cfg.Today = ""
	}
	swept, err := run.Swept()
	if err != nil {
		return "", err
	}
	text, err := json.Marshal(struct {
		Rules   rules.Config
		Samples int
	}{cfg, swept.Samples})
	if err != nil {
		return "", fmt.Errorf("rules: %w", err)
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:]), nil
}

// keep stores what a device has confirmed, for commands that do not ask it.
func keep[T any](run *results.Run, key string, cfg rules.Config, result *T) error {
	basis, err := basisOf(run, cfg)
	if err != nil {
		return err
	}
	text, err := json.Marshal(verdict[T]{basis, result})
	if err != nil {
		return fmt.Errorf("%s: %s: %w", run.Path(), key, err)
	}
	return run.SetState(key, string(text))
}

// keepWhole is keep unless an interruption cut the asking short: then a whole verdict
// that was kept before is worth more. One that only ran out of its time is kept.
func keepWhole[T any](ctx context.Context, run *results.Run, key string, cfg rules.Config, result *T) error {
	if errors.Is(ctx.Err(), context.Canceled) {
		return nil
	}
	return keep(run, key, cfg, result)
}

// kept returns what was stored for the same rules and samples, nil when nothing was.
func kept[T any](run *results.Run, key string, cfg rules.Config) (*T, error) {
	text, ok, err := run.State(key)
	if err != nil || !ok {
		return nil, err
	}
	var v verdict[T]
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		return nil, devicef("%s: the verdict kept as %q can't be read: %w", run.Path(), key, err)
	}
	basis, err := basisOf(run, cfg)
	if err != nil || basis != v.Basis {
		return nil, err
	}
	return v.Result, nil
}
