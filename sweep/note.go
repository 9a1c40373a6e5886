package sweep

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// Note explains how a plan differs from the request.
type Note struct {
	// What is a kernel on a device, a preset or a flag: "mma on cpu".
	What string `json:"what"`
	// LeftOut is true if the plan omits What entirely.
	LeftOut bool   `json:"left_out,omitempty"`
	Why     string `json:"why"`
	// Part is the unmeasured part of a model that the note is about, if any.
	Part ModelPart `json:"part,omitzero"`
}

// ModelPart is a part of a model: a weight matrix with its experts, or an attention.
type ModelPart struct {
	// Name is "qwen:experts.down_proj", with " tp2" if split.
	Name string `json:"name"`
	N    int    `json:"n,omitempty"`
	K    int    `json:"k,omitempty"`
	// Experts is the number of such matrices per layer; Active of them process a token.
	Experts int `json:"experts,omitempty"`
	Active  int `json:"experts_per_token,omitempty"`
	// Layers is the number of layers that contain it, 0 if unknown.
	Layers     int `json:"layers,omitempty"`
	QueryHeads int `json:"query_heads,omitempty"`
	KVHeads    int `json:"kv_heads,omitempty"`
	HeadDim    int `json:"head_dim,omitempty"`
}

// String formats the part with its shape and count.
func (p ModelPart) String() string {
	s := p.Name
	if p.N > 0 {
		s += fmt.Sprintf(" n%d k%d", p.N, p.K)
	}
	if p.QueryHeads > 0 {
		s += fmt.Sprintf(" q%dkv%dd%d", p.QueryHeads, p.KVHeads, p.HeadDim)
	}
	if p.Experts > 0 {
		s += fmt.Sprintf(", %d experts, %d a token", p.Experts, p.Active)
	}
	if p.Layers > 0 {
		s += fmt.Sprintf(", %d layers", p.Layers)
	}
	return s
}

func (t Target) part() ModelPart {
	return ModelPart{Name: t.Name, N: t.N, K: t.K, Experts: t.Experts, Active: t.Active, Layers: t.Layers,
		QueryHeads: t.Heads.Query, KVHeads: t.Heads.KV, HeadDim: t.Heads.Dim}
}

// String formats the note in one line.
func (n Note) String() string {
	what := n.What
	if n.LeftOut {
		what += leftOutWords
	}
	return what + ": " + n.Why
}

const leftOutWords = " is left out"

// notesOfOldPlans reads the notes of an old plan, which were lines of text.
func notesOfOldPlans(plan []byte) ([]Note, error) {
	var old struct {
		Lines []string `json:"notes"`
	}
	if err := json.Unmarshal(plan, &old); err != nil {
		return nil, err
	}
	var out []Note
	for _, line := range old.Lines {
		n := Note{What: "plan", Why: line}
		if what, why, ok := strings.Cut(line, ": "); ok {
			n.Why = why
			n.What, n.LeftOut = strings.CutSuffix(what, leftOutWords)
		}
		out = append(out, n)
	}
	return out, nil
}

// ShortNotes are a plan's notes as printed before measuring. Skipped items are one line with a count;
// --dry-run lists the reasons.
func ShortNotes(notes []Note) []string {
	var lines, out []string
	var only Note
	for _, n := range notes {
		if !n.LeftOut {
			lines = append(lines, n.String())
			continue
		}
		only = n
		what, _, _ := strings.Cut(strings.TrimPrefix(n.What, "kernel "), " on ")
		if !slices.Contains(out, what) {
			out = append(out, what)
		}
	}
	switch {
	case len(out) == 1:
		lines = append(lines, only.String())
	case len(out) > 1:
		lines = append(lines, fmt.Sprintf("%d skipped: %s; --dry-run gives the reasons", len(out), strings.Join(out, ", ")))
	}
	return lines
}
