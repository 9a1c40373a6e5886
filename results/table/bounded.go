package table

import "fmt"

// Elements of lists are checked one by one as they are decoded, since one in which nothing
// stands takes three bytes of text and more than a hundred of memory. What else may be wrong with
// them is found by [Table.Validate].

// UnmarshalJSON reads a series. One without a kernel is an error.
func (s *Series) UnmarshalJSON(data []byte) error {
	type plain Series
	if err := decode(data, (*plain)(s)); err != nil {
		return err
	}
	if s.Kernel == "" {
		return fmt.Errorf("a series has no kernel: %.80q", data)
	}
	return nil
}

// UnmarshalJSON reads an interval. One that does not say where it begins and ends is an error.
func (iv *Interval) UnmarshalJSON(data []byte) error {
	type plain Interval
	if err := decode(data, (*plain)(iv)); err != nil {
		return err
	}
	if iv.From == 0 || iv.To == 0 {
		return fmt.Errorf("an interval has no from or no to: %.80q", data)
	}
	return nil
}

// UnmarshalJSON reads a proof. One that does not say of which M it is, is an error.
func (p *Proof) UnmarshalJSON(data []byte) error {
	type plain Proof
	if err := decode(data, (*plain)(p)); err != nil {
		return err
	}
	if p.M == 0 {
		return fmt.Errorf("a proof has no m: %.80q", data)
	}
	return nil
}
