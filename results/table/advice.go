package table

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
	ExtraBytes int64 `json:"extra_bytes,omitempty"`
	Proof      Proof `json:"proof"`
}

const shortestAdvice = len(`{"kernel":"a","dtype":"b","layout":"nk","n":1,"k":1,"kind":"pad-n","pad_to":2,"pad":"in-place","proof":{}}`)

func (v *validator) advice(a *Advice) {
	s := &Series{Product: a.Product}
	v.series(s)
	size := map[string]int{PadN: a.N, PadK: a.K}[a.Kind]
	switch {
	case size == 0:
		v.fail("advice for %v: kind is %.20q, expected %s or %s", s, a.Kind, PadN, PadK)
	case a.PadTo <= size || a.PadTo > maxSize:
		v.fail("advice for %v: pad_to is %d, expected above %d and at most %d", s, a.PadTo, size, maxSize)
	case a.ExtraBytes < 0 || a.ExtraBytes > maxBytes:
		v.fail("advice for %v: extra_bytes is %d, expected 0 to %d", s, a.ExtraBytes, int64(maxBytes))
	case a.Pad != InPlace && (a.Pad != Copied || a.Kind == PadN):
		v.fail("advice for %v: pad is %.20q, expected %s, or %s with %s", s, a.Pad, InPlace, Copied, PadK)
	}
	v.proofs(place{s, 0}, &Interval{From: 1, To: maxSize, Proofs: []Proof{a.Proof}})
}
