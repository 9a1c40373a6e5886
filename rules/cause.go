package rules

// explained gives a finding its cause and the sentence for it.
func explained(c *candidate, f Finding, _ Data) Finding {
	f.Cause = c.worst.cause
	if c.worst.explain != nil {
		f.Explanation = c.worst.explain()
	}
	if f.Cause == "" {
		f.Cause = Unknown
	}
	return f
}
