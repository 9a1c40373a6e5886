package infer

// Wrong reports whether the results of a curve's kernel are known to be wrong. Its times are judged, but it
// is neither a reference for other kernels nor a remedy.
func (c *Curve) Wrong() bool {
	if !c.Series.Key.Operation.IsProduct() {
		return false
	}
	_, wrong := c.Spec.WrongResults(c.Series.Key.Kernel, c.Series.Key.DType)
	return wrong
}
