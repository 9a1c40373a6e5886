package stats

// GCD is the greatest common divisor of two numbers of at least 0.
func GCD(a, b int) int {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}
