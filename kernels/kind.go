package kernels

import (
	"slices"
	"strings"
)

// Kind is the kind of a device.
type Kind string

// The kinds of devices.
const (
	CPU  Kind = "cpu"
	CUDA Kind = "cuda"
)

// KindFacts is what differs between devices only by their kind.
type KindFacts struct {
	Kind Kind
	Name string // for people: "CUDA device"
	Unit string // what [Spec].Units counts: "core", "SM"
	// Host says that the device is the processor of the host: it has the host's threads,
	// memory and clock policy.
	Host bool
	// Card says that the device is a card beside the host: a host may have several of a
	// name, which can be compared, and measures on one of them unless told otherwise.
	Card bool
	// known are words in the names of devices from elsewhere that tell the kind.
	known []string
}

// kindTable lists the kinds. Another one is a package that provides its devices, an entry here
// and its provider in cmd/gemmaudit/app.go.
var kindTable = []KindFacts{
	{Kind: CUDA, Name: "CUDA device", Unit: "SM", Card: true, known: []string{"nvidia"}},
	{Kind: CPU, Name: "CPU", Unit: "core", Host: true, known: []string{"xeon", "epyc"}},
}

// Facts are those of a kind. An unknown one is neither the host nor a card, and has cores.
func (k Kind) Facts() KindFacts {
	for _, f := range kindTable {
		if f.Kind == k {
			return f
		}
	}
	return KindFacts{Kind: k, Name: string(k) + " device", Unit: "core"}
}

// KindOf guesses a device's kind from its id or name, for runs from elsewhere; empty when
// nothing tells it.
func KindOf(name string) Kind {
	name = strings.ToLower(name)
	for _, f := range kindTable {
		in := func(word string) bool { return strings.Contains(name, word) }
		if strings.HasPrefix(name, string(f.Kind)) || slices.ContainsFunc(f.known, in) {
			return f.Kind
		}
	}
	return ""
}
