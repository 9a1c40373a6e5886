package kernels

import (
	"slices"
	"strings"
)

// Kind is the kind of a device.
type Kind string

const (
	CPU  Kind = "cpu"
	CUDA Kind = "cuda"
)

// KindFacts are the facts that depend only on a device's kind.
type KindFacts struct {
	Kind Kind
	Name string // for people: "CUDA device"
	Unit string // what [Spec].Units counts: "core", "SM"
	// Host is true for the host's processor: it has the host's threads, memory and clock policy.
	Host bool
	// Card is true for an accelerator card. A host may have several cards of one name; it measures on one by
	// default.
	Card bool
	// Known are words in device names of imported runs that identify the kind.
	Known []string
}

// kindTable lists the kinds that the program has; [DefineKind] adds others.
var kindTable = []KindFacts{
	{Kind: CUDA, Name: "CUDA device", Unit: "SM", Card: true, Known: []string{"nvidia"}},
	{Kind: CPU, Name: "CPU", Unit: "core", Host: true, Known: []string{"xeon", "epyc"}},
}

// DefineKind adds a kind of device; undefine removes it, and all that were added later. Like [Define], call it before
// anything asks for kinds.
func DefineKind(f KindFacts) (undefine func()) {
	n := len(kindTable)
	kindTable = append(kindTable[:n:n], f)
	return func() { kindTable = kindTable[:n:n] }
}

// Facts returns the facts of a kind. An unknown kind is neither host nor card and has cores.
func (k Kind) Facts() KindFacts {
	for _, f := range kindTable {
		if f.Kind == k {
			return f
		}
	}
	return KindFacts{Kind: k, Name: string(k) + " device", Unit: "core"}
}

// KindOf guesses a device's kind from its id or name, for imported runs; empty if unknown.
func KindOf(name string) Kind {
	name = strings.ToLower(name)
	for _, f := range kindTable {
		in := func(word string) bool { return strings.Contains(name, word) }
		if strings.HasPrefix(name, string(f.Kind)) || slices.ContainsFunc(f.Known, in) {
			return f.Kind
		}
	}
	return ""
}
