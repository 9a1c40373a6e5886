package remedy

// Devices lists the devices whose series were searched, in order of appearance.
func (s *Result) Devices() []string {
	var out []string
	seen := map[string]bool{}
	for _, key := range s.Searched {
		if !seen[key.Device] {
			seen[key.Device] = true
			out = append(out, key.Device)
		}
	}
	return out
}

// On returns the results of one device, to build its table: a table holds for one device.
func (s *Result) On(device string) *Result {
	one := *s
	one.Splits, one.Rejected, one.Stretches, one.Searched, one.Ranges, one.Savings = nil, nil, nil, nil, nil, nil
	for _, r := range s.Splits {
		if r.Series.Device == device {
			one.Splits = append(one.Splits, r)
		}
	}
	for _, r := range s.Rejected {
		if r.Series.Device == device {
			one.Rejected = append(one.Rejected, r)
		}
	}
	for _, r := range s.Stretches {
		if r.Series.Device == device {
			one.Stretches = append(one.Stretches, r)
		}
	}
	for i, key := range s.Searched {
		if key.Device != device {
			continue
		}
		one.Searched = append(one.Searched, key)
		if len(s.Ranges) == len(s.Searched) {
			one.Ranges = append(one.Ranges, s.Ranges[i])
		}
	}
	for _, saving := range s.Savings {
		if saving.Device == device {
			one.Savings = append(one.Savings, saving)
		}
	}
	return &one
}
