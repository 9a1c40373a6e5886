package sweep

import (
	"encoding/json"
	"fmt"
	"strings"
)

// Note is what is not in a plan as it was asked for, and why.
type Note struct {
	// What is a kernel on a device, a preset or a flag: "mma on cpu".
	What string `json:"what"`
	// LeftOut says that the plan has none of it.
	LeftOut bool   `json:"left_out,omitempty"`
	Why     string `json:"why"`
	// Part is the part of a model that is listed and not measured, if it is about one.
	Part ModelPart `json:"part,omitzero"`
}

// ModelPart is a part of a model: a weight matrix with its experts, or an attention.
type ModelPart struct {
	// Name is "qwen:experts.down_proj", with " tp2" where it is split.
	Name string `json:"name"`
	N    int    `json:"n,omitempty"`
	K    int    `json:"k,omitempty"`
	// Experts is how many such matrices a layer has, Active how many of them a token takes.
	Experts int `json:"experts,omitempty"`
	Active  int `json:"experts_per_token,omitempty"`
	// Layers is how many layers have it, 0 where that is not known.
	Layers     int `json:"layers,omitempty"`
	QueryHeads int `json:"query_heads,omitempty"`
	KVHeads    int `json:"kv_heads,omitempty"`
	HeadDim    int `json:"head_dim,omitempty"`
}

// String names the part, its shape and how many there are.
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

// part is the part of a model that a target is.
func (t Target) part() ModelPart {
	return ModelPart{Name: t.Name, N: t.N, K: t.K, Experts: t.Experts, Active: t.Active, Layers: t.Layers,
		QueryHeads: t.Heads.Query, KVHeads: t.Heads.KV, HeadDim: t.Heads.Dim}
}

// String is the note in one line.
func (n Note) String() string {
	what := n.What
	if n.LeftOut {
		what += leftOutWords
	}
	return what + ": " + n.Why
}

// leftOutWords follow what is left out.
const leftOutWords = " is left out"

// notesOfOldPlans are the notes of a plan that was written when they were lines of text.
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
