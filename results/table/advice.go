package table

import "slices"

// The kinds of advice.
const (
	PadN = "pad-n" // weights padded along N
	PadK = "pad-k" // weights padded along K
)

// Advice is for those who convert weights: pad them with zeros, once, and run the larger product. Lookups
// ignore it, since weights can't change from one M to the next.
type Advice struct {
	Product
	Kind  string `json:"kind"`   // PadN or PadK
	PadTo int    `json:"pad_to"` // the padded N or K
	// Pad says whether the activations of PadK had rows of the padded length, or were copied into such rows in
	// the measured time.
	Pad PadKind `json:"pad"`
	// ExtraBytes is the memory that the padding needs.
	ExtraBytes int   `json:"extra_bytes,omitempty"`
	Proof      Proof `json:"proof"`
}

var adviceFields = append(slices.Clone(seriesFields[:6]),
	field{"kind", 4, true}, field{"pad_to", 4, true}, field{"pad", 4, true}, field{"extra_bytes", 4, false}, field{"proof", 4, true})

const shortestAdvice = len(`{"kernel":"a","dtype":"b","layout":"nk","n":1,"k":1,"kind":"pad-n","pad_to":2,"pad":"in-place","proof":{}}`)

func (r *reader) advice() Advice {
	var a Advice
	r.object("an advice", adviceFields, func(i int) {
		switch name := adviceFields[i].name; name {
		case "kind":
			a.Kind = r.text(name)
		case "pad_to":
			a.PadTo = r.whole(name)
		case "pad":
			a.Pad = PadKind(r.text(name))
		case "extra_bytes":
			a.ExtraBytes = r.whole(name)
		case "proof":
			a.Proof = r.proof()
		default:
			r.product(name, &a.Product)
		}
	})
	return a
}

func (v *validator) advice(a *Advice) {
	s := &Series{Product: a.Product}
	v.series(s)
	size := map[string]int{PadN: a.N, PadK: a.K}[a.Kind]
	switch {
	case size == 0:
		v.fail("advice for %v: kind is %.20q, expected %s or %s", s, a.Kind, PadN, PadK)
	case a.PadTo <= size || a.PadTo > maxSize:
		v.fail("advice for %v: pad_to is %d, expected above %d and at most %d", s, a.PadTo, size, maxSize)
	case a.Pad != InPlace && (a.Pad != Copied || a.Kind == PadN):
		v.fail("advice for %v: pad is %.20q, expected %s, or %s with %s", s, a.Pad, InPlace, Copied, PadK)
	}
	v.proofs(place{s, 0}, &Interval{From: 1, To: maxSize, Proofs: []Proof{a.Proof}})
}
