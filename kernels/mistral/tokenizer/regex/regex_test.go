package regex

import (
	"slices"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"
)

func TestRefused(t *testing.T) {
	for expression, want := range map[string]string{
		``:                   `matches the empty text, expected at least one character`,
		`a*`:                 `matches the empty text, expected at least one character`,
		`(?!a)`:              `matches the empty text, expected at least one character`,
		"a\xff":              `is not UTF-8`,
		`^a`:                 `"^a" at byte 0: anchors are not supported`,
		`\s+$`:               `"$" at byte 3: anchors are not supported`,
		`\w+`:                `"\\w+" at byte 0: this escape is not supported`,
		`a\b`:                `"\\b" at byte 1: this escape is not supported`,
		`a\`:                 `"\\" at byte 1: this escape is not supported`,
		`(?<=a)b`:            `"(?<=a)b" at byte 0: expected a group of (, (?:, (?i:, (?=, (?! or (?>`,
		`(?i)a`:              `"(?i)a" at byte 0: expected a group of (, (?:, (?i:, (?=, (?! or (?>`,
		`(?P<n>a)`:           `"(?P<n>a)" at byte 0: expected a group of (, (?:, (?i:, (?=, (?! or (?>`,
		`(a`:                 `"(a" at byte 0: expected a closing parenthesis`,
		`a)`:                 `")" at byte 1: expected a group that it closes`,
		`+a`:                 `"+a" at byte 0: expected something in front that is repeated, and is no repeat`,
		`a**`:                `"*" at byte 2: expected something in front that is repeated, and is no repeat`,
		`a{2}+`:              `"{2}+" at byte 1: what follows it is read in different ways, expected a group around it`,
		`a{2`:                `"{2" at byte 1: expected {n}, {n,} or {n,m} with numbers up to 999`,
		`a{,2}`:              `"{,2}" at byte 1: expected {n}, {n,} or {n,m} with numbers up to 999`,
		`a{3,2}`:             `invalid repeat count`,
		`a{1001}`:            `"{1001}" at byte 1: expected {n}, {n,} or {n,m} with numbers up to 999`,
		`(?:a?)+b`:           `"+b" at byte 6: repeats what may be empty`,
		`a]`:                 `"]" at byte 1: expected a backslash in front`,
		`[a`:                 `"[a" at byte 0: this class is not supported`,
		`[]`:                 `"[]" at byte 0: this class is not supported`,
		`[a[b]]`:             `"[a[b]]" at byte 0: this class is not supported`,
		`[a&&b]`:             `"[a&&b]" at byte 0: operations on classes are not supported`,
		`[z-a]`:              `[%c-%c] range in reverse order`,
		`[a-\s]`:             `"[a-\\s]" at byte 0: this class is not supported`,
		`[\s-a]`:             `"[\\s-a]" at byte 0: this class is not supported`,
		`\p{Han}`:            `"\\p{Han}" at byte 0: this escape is not supported`,
		`\pL`:                `"\\pL" at byte 0: this escape is not supported`,
		`\u12`:               `"\\u12" at byte 0: this escape is not supported`,
		`\x41`:               `"\\x41" at byte 0: this escape is not supported`,
		`(?i:é)`:             `"é)" at byte 4: expected only characters of ASCII in (?i:`,
		`(?i:\p{L})`:         `"\\p{L})" at byte 4: expected only characters of ASCII in (?i:`,
		`(?i:[^a])`:          `"[^a])" at byte 4: expected only characters of ASCII in (?i:`,
		`(?i:ß|ss)`:          `"ß|ss)" at byte 4: expected only characters of ASCII in (?i:`,
		`(?i:claSs)`:         `"Ss)" at byte 7: letters that are one character in another case are not supported in (?i:`,
		`((?:ab){1000}){99}`: `"{1000}){" at byte 7: expected {n}, {n,} or {n,m} with numbers up to 999`,

		strings.Repeat("a", 16385):                              `has 16385 bytes, expected at most 16384`,
		strings.Repeat("(", 51) + "a" + strings.Repeat(")", 51): `"(a))))))" at byte 50: more than 50 groups in one another`,
	} {
		if _, err := Compile(expression); err == nil || err.Error() != want {
			t.Errorf("%.40s:\n got %v\nwant %s", expression, err, want)
		}
	}
}

func matches(t interface{ Fatalf(string, ...any) }, p *Pattern, text string) []string {
	found := []string{}
	at := 0
	p.Each(text, func(start, stop int, match bool) {
		if start != at || stop <= start || !utf8.ValidString(text[start:stop]) {
			t.Fatalf("%q: a part from %d to %d, expected one from %d on", text, start, stop, at)
		}
		at = stop
		if match {
			found = append(found, text[start:stop])
		}
	})
	if at != len(text) {
		t.Fatalf("%q: parts up to %d of %d bytes", text, at, len(text))
	}
	return found
}

// Constructs that package regexp lacks, and repeats of single sets, which have their own instructions.
func TestMatches(t *testing.T) {
	for _, c := range []struct {
		expression, text string
		want             []string
	}{
		{`\s+(?!\S)|\s+`, "a   b  ", []string{"  ", " ", "  "}},
		{` ?\p{L}+|\d`, "ab c1", []string{"ab", " c", "1"}},
		{`[ab]+b|\d`, "ab1aba", []string{"ab", "1", "ab"}},
		{`a(?=b)`, "abaab", []string{"a", "a"}},
		{`a++a|b`, "aaab", []string{"b"}},
		{`(?>a|ab)c|b`, "abc", []string{"b"}},
		{`(?:ab)*+ab|b`, "abab", []string{"b", "b"}},
		{`a?+a|b`, "ab", []string{"b"}},
		{`(?i:'s|k)`, "'S'ſ'skKK", []string{"'S", "'ſ", "'s", "k", "K", "K"}},
		{`(?i:[j-l])`, "iKKm", []string{"K", "K"}},
		{`\p{Lo}`, "a\U000323AF世", []string{"\U000323AF", "世"}},
		{`\p{Lu}`, "\uA7DC\u1C89", []string{"\uA7DC", "\u1C89"}}, // of Unicode 16.0
		{`(?:a|ab)(?:c|bcd)(?:d|)`, "abcd", []string{"abcd"}},
	} {
		p, err := Compile(c.expression)
		if err != nil {
			t.Errorf("%s: %v", c.expression, err)
		} else if got := matches(t, p, c.text); !slices.Equal(got, c.want) {
			t.Errorf("%s in %q: %q, want %q", c.expression, c.text, got, c.want)
		}
	}
}

// Every character is matched as one of its category in the engines.
func TestCategories(t *testing.T) {
	for r := rune(0); r <= lastRune; r++ {
		if r == 0xD800 {
			r = 0xE000
		}
		name := categoryNames[table().of(r)&category]
		if !unicode.Is(unicode.Categories[name], known(r)) {
			t.Errorf("%U is matched as %U, expected one of %s", r, known(r), name)
		}
	}
}

func TestIsWord(t *testing.T) {
	for r, want := range map[rune]bool{'a': true, 'é': true, '世': true, '5': true, '٣': true, '_': true, '‿': true, 'Ⅷ': true,
		'Ⓐ': true, '\u0301': true, '\u200d': true, '\u200b': false, '-': false, '▁': false, '½': false, ' ': false, '€': false,
		'😀': false} {
		if IsWord(r) != want {
			t.Errorf("%q: got %t, want %t", r, !want, want)
		}
	}
}
