// Package driver is a GPU by way of NVIDIA's driver: its context, memory and code, launches
// and what times them, graphs, and weights in the forms that kernels read. All of it stands
// behind the build tag cuda.
package driver

import "strings"

// kernelName is the name of a library's kernel for people, from the symbol in its
// module: C++ names without their parameters, and of their template arguments no
// more than the class that a kernel is made of, which is what libraries built from
// templates tell their kernels apart by.
func kernelName(symbol string) string {
	rest, ok := strings.CutPrefix(symbol, "_Z")
	if !ok {
		return symbol
	}
	rest, nested := strings.CutPrefix(rest, "N")
	var path []string
	for {
		part, after := identifier(rest)
		if part == "" {
			break
		}
		path, rest = append(path, part), after
		if !nested {
			break
		}
	}
	if len(path) == 0 {
		return symbol
	}
	name := strings.Join(path, "::")
	if arguments, ok := strings.CutPrefix(rest, "I"); ok {
		if class, _ := identifier(strings.TrimPrefix(arguments, "N")); class != "" {
			name += "<" + class + ">"
		}
	}
	return name
}

// identifier reads "6kernel" as "kernel" and returns what follows; "" where there is
// none.
func identifier(s string) (name, rest string) {
	n, digits := 0, 0
	for digits < len(s) && s[digits] >= '0' && s[digits] <= '9' && n <= len(s) {
		n = 10*n + int(s[digits]-'0')
		digits++
	}
	if digits == 0 || n == 0 || digits+n > len(s) {
		return "", s
	}
	return s[digits : digits+n], s[digits+n:]
}

// kernelNames joins the names of the kernels that one call launches, in order.
func kernelNames(symbols []string) string {
	names := make([]string, len(symbols))
	for i, s := range symbols {
		names[i] = kernelName(s)
	}
	return strings.Join(names, " + ")
}
