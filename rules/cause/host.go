package cause

import (
	"fmt"

	"github.com/gemmaudit/gemmaudit/rules/phrase"
)

// Host: the host starts the launches one by one and needs the row's whole time for it. This is measured, so it
// goes before all causes that lie in the kernel.
func (w *Witness) Host() (Kind, string) {
	us, bound := w.Curve.HostTime(w.At)
	if !bound {
		return "", ""
	}
	return HostBound, fmt.Sprintf("%s; the host needs %s us to start a launch, so no kernel would be faster without a CUDA graph",
		w.Versus(), phrase.Figure(us))
}
