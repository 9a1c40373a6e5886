package kernels

import "strings"

// SymbolName returns a readable name of a library's kernel from its symbol. C++ names lose their parameters.
// Of the template arguments only the kernel's class stays, which distinguishes the kernels of template
// libraries.
func SymbolName(symbol string) string {
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

// identifier reads "6kernel" as "kernel" and returns the rest; "" if there is no identifier.
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
