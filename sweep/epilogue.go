package sweep

// finished returns targets once for each epilogue. Targets that are no fused products are returned once.
func (o *Options) finished(targets []Target) []Target {
	var out []Target
	for _, t := range targets {
		if t.Further.Epilogue == 0 || len(o.Epilogues) == 0 {
			out = append(out, t)
			continue
		}
		for _, e := range o.Epilogues {
			t.Further.Epilogue = e
			out = append(out, t)
		}
	}
	return out
}
