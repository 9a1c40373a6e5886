package kernels

import "fmt"

// Even reports whether no routing divides the rows unequally: a grouped product without one, or any other operation.
func (s Subject) Even() bool { return s == s.Stores() }

// RoutedRows names the rows of a grouped product by their routing: "tokens drawn with skew 100".
func (s Subject) RoutedRows() string {
	switch {
	case s.Draw != 0 && s.Skew == 0:
		return "tokens drawn with equal chances"
	case s.Draw != 0:
		return fmt.Sprintf("tokens drawn with skew %d", s.Skew)
	case s.Routing != 0:
		return "rows of a recorded routing"
	}
	return "evenly divided rows"
}

// Experts describes the groups and the routing of a grouped product in a sentence: "8 experts, 2 for each token, drawn with
// skew 100". It is empty for other operations.
func (s Subject) Experts() string {
	text := fmt.Sprintf("%d experts", s.Groups)
	switch {
	case s.Groups == 0:
		return ""
	case s.Groups == 1:
		return "1 expert"
	case s.Draw != 0 && s.Skew == 0:
		return fmt.Sprintf("%s, %d for each token, drawn with equal chances", text, s.TopK)
	case s.Draw != 0:
		return fmt.Sprintf("%s, %d for each token, drawn with skew %d", text, s.TopK, s.Skew)
	case s.Routing != 0:
		return text + ", recorded routing"
	}
	return text + ", rows divided evenly"
}
