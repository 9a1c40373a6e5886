package results

// Real returns the case that is timed and stored: for a case on a curve along another dimension than M, its
// subject and M instead of the coordinate. Padding along such a curve is a larger product, whose weights an
// engine has padded at load: nothing else runs. With Copied, the activations are first copied to rows of the
// padded length.
func (c Case) Real() Case {
	if c.OverM() {
		return c
	}
	at := c.M
	if c.PadTo > 0 {
		at, c.PadTo = c.PadTo, 0
	}
	c.Subject, c.M = c.Subject.At(at)
	if c.Copied {
		c.PadTo = c.M
	}
	return c
}
