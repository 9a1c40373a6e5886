package regex

import (
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"pgregory.net/rapid"
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
		`a\`:                 `"\\" at byte 1: expected a character behind it`,
		`(?<=a)b`:            `"(?<=a)b" at byte 0: expected a group of (, (?:, (?i:, (?=, (?! or (?>`,
		`(?i)a`:              `"(?i)a" at byte 0: expected a group of (, (?:, (?i:, (?=, (?! or (?>`,
		`(?P<n>a)`:           `"(?P<n>a)" at byte 0: expected a group of (, (?:, (?i:, (?=, (?! or (?>`,
		`(a`:                 `"(a" at byte 0: expected a closing parenthesis`,
		`a)`:                 `")" at byte 1: expected a group that it closes`,
		`+a`:                 `"+a" at byte 0: expected something in front that is repeated`,
		`a**`:                `"**" at byte 1: a repeat of a repeat, expected a group around the first`,
		`a{2}+`:              `"{2}+" at byte 1: what follows it is read in different ways, expected a group around it`,
		`a{2`:                `"{2" at byte 1: expected {n}, {n,} or {n,m}`,
		`a{,2}`:              `"{,2}" at byte 1: expected {n}, {n,} or {n,m} with numbers up to 1000`,
		`a{3,2}`:             `"{3,2}" at byte 1: expected {n}, {n,} or {n,m} with numbers up to 1000`,
		`a{1001}`:            `"{1001}" at byte 1: expected {n}, {n,} or {n,m} with numbers up to 1000`,
		`(?:a?)+b`:           `"+b" at byte 6: repeats what may be empty`,
		`a]`:                 `"]" at byte 1: expected a backslash in front`,
		`[a`:                 `"[a" at byte 0: expected a closing bracket`,
		`[]`:                 `"[]" at byte 0: expected characters in the class`,
		`[a[b]]`:             `"[b]]" at byte 2: classes in classes are not supported`,
		`[a&&b]`:             `"&&b]" at byte 2: operations on classes are not supported`,
		`[z-a]`:              `"[z-a]" at byte 0: expected ranges from a character to a later one`,
		`[a-\s]`:             `"[a-\\s]" at byte 0: expected ranges from a character to a later one`,
		`[\s-a]`:             `"-a]" at byte 3: expected a backslash in front`,
		`\p{Han}`:            `"\\p{Han}" at byte 0: expected a general category of one or two letters, as in \p{Lu} or \p{N}`,
		`\pL`:                `"\\pL" at byte 0: expected a general category of one or two letters, as in \p{Lu} or \p{N}`,
		`\u12`:               `"\\u12" at byte 0: expected a character as \uHHHH or \x{H…}`,
		`\x{D800}`:           `"\\x{D800}" at byte 0: expected a character as \uHHHH or \x{H…}`,
		`\x41`:               `"\\x41" at byte 0: expected a character as \uHHHH or \x{H…}`,
		`(?i:é)`:             `"é)" at byte 4: expected only characters of ASCII in (?i:`,
		`(?i:\p{L})`:         `"\\p{L})" at byte 4: expected only characters of ASCII in (?i:`,
		`(?i:[^a])`:          `"[^a])" at byte 4: expected only characters of ASCII in (?i:`,
		`(?i:ß|ss)`:          `"ß|ss)" at byte 4: expected only characters of ASCII in (?i:`,
		`(?i:claSs)`:         `"Ss)" at byte 7: letters that are one character in another case are not supported in (?i:`,
		`((?:ab){1000}){99}`: `has more than 16384 steps`,

		strings.Repeat("a", 16385):                                    `has 16385 bytes, expected at most 16384`,
		strings.Repeat("(", 51) + "a" + strings.Repeat(")", 51):       `"(a))))))" at byte 50: more than 50 groups in one another`,
		strings.Repeat("(?:", 9) + "ab" + strings.Repeat("){999}", 9): `has more than 16384 steps`,
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

// Without recording failed ways, these would take exponential time.
func TestPatience(t *testing.T) {
	for expression, text := range map[string]string{
		`(?:a|b|ab)*c|a`:      strings.Repeat("ab", 100),
		`(?:a+)+c|a`:          strings.Repeat("a", 100),
		`(?:(?:a|aa)+b?)+c|a`: strings.Repeat("a", 100),
		`(?!(?:a+)+c)a`:       strings.Repeat("a", 100),
		`(?>(?:a+)+c|a)`:      strings.Repeat("a", 100),
		strings.Repeat("a?", 60) + strings.Repeat("a", 60) + "c|a": strings.Repeat("a", 100),
	} {
		p, err := Compile(expression)
		if err != nil {
			t.Fatal(err)
		}
		if got := len(matches(t, p, text)); got != strings.Count(text, "a") {
			t.Errorf("%s: %d matches", expression, got)
		}
	}
}

// expressions draws expressions that this package and regexp interpret alike on ASCII.
func expressions(depth int) *rapid.Generator[string] {
	return rapid.Custom(func(t *rapid.T) string {
		atom := rapid.SampledFrom([]string{"a", "b", "c", " ", "[ab]", "[^a]", ".", `\p{L}`, `[\p{L} ]`, `\P{L}`, "(?i:k)", "a", "b"})
		kind := rapid.IntRange(0, 9).Draw(t, "kind")
		if depth == 0 || kind < 3 {
			return atom.Draw(t, "atom")
		}
		sub := expressions(depth - 1)
		switch {
		case kind < 6:
			return sub.Draw(t, "left") + sub.Draw(t, "right")
		case kind < 8:
			return "(?:" + sub.Draw(t, "first") + "|" + sub.Draw(t, "second") + ")"
		}
		return "(?:" + sub.Draw(t, "body") + ")" +
			rapid.SampledFrom([]string{"?", "*", "+", "??", "*?", "+?", "{2}", "{1,}", "{0,2}"}).Draw(t, "repeat")
	})
}

// Package regexp prefers the same matches.
func TestRegexpAgrees(t *testing.T) {
	compared := 0
	rapid.Check(t, func(t *rapid.T) {
		expression := expressions(4).Draw(t, "expression")
		text := rapid.StringOfN(rapid.SampledFrom([]rune("aabbcK \n")), 0, 24, -1).Draw(t, "text")
		p, err := Compile(expression)
		if err != nil {
			return // it may match nothing
		}
		compared++
		want := regexp.MustCompile(expression).FindAllString(text, -1)
		if got := matches(t, p, text); !slices.Equal(got, want) {
			t.Fatalf("%s in %q: %q, regexp %q", expression, text, got, want)
		}
	})
	if compared == 0 {
		t.Error("no expression was compared")
	}
}

// Compares with package regexp where both interpret an expression alike.
func FuzzCompile(f *testing.F) {
	for _, e := range []string{`'s| ?\p{L}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+`, `(?i:'s|ll)?[a-z]++|\d{1,3}`, `(?>a|b)*?c(?=d)`,
		`[\u0041-\x{42}]`} {
		f.Add(e, "it's 42  degrees\n")
	}
	f.Fuzz(func(t *testing.T, expression, text string) {
		if len(expression) > 60 || len(text) > 200 {
			return
		}
		p, err := Compile(expression)
		if err != nil {
			if strings.ContainsAny(err.Error(), "\n\r") {
				t.Fatalf("%q is not one line", err)
			}
			return
		}
		text = strings.ToValidUTF8(text, "?")
		got := matches(t, p, text)
		other, err := regexp.Compile(expression)
		differs := strings.ContainsFunc(text, func(r rune) bool { return r >= utf8.RuneSelf || r == '\v' })
		if err != nil || differs || possessiveRepeat(expression) {
			return
		}
		if want := append([]string{}, other.FindAllString(text, -1)...); !slices.Equal(got, want) {
			t.Fatalf("%s in %q: %q, regexp %q", expression, text, got, want)
		}
	})
}

// possessiveRepeat reports whether an expression may have a repeat that package regexp reads as a repeat of a
// repeat.
func possessiveRepeat(expression string) bool {
	return strings.Contains(expression, "++") || strings.Contains(expression, "*+") || strings.Contains(expression, "?+")
}

// Go's classes must agree for characters that both know.
func TestCategories(t *testing.T) {
	c := table()
	for r := rune(0); r <= lastRune; r++ {
		name := categoryNames[c.of(r)&category]
		if name == "Cn" || name == "Cs" || r == 0x1171E { // Mn in Unicode 15.0
			continue
		}
		if in, ok := unicode.Categories[name]; ok && !unicode.Is(in, r) &&
			slices.ContainsFunc(categoryNames[:28], func(n string) bool { return unicode.Is(unicode.Categories[n], r) }) {
			t.Errorf("%U is %s", r, name)
		}
	}
}

func TestIsWord(t *testing.T) {
	for r, want := range map[rune]bool{'a': true, 'é': true, '世': true, '5': true, '٣': true, '_': true, '‿': true, 'Ⅷ': true, 'Ⓐ': true,
		'\u0301': true, '\u200d': true, '\u200b': false, '-': false, '▁': false, '½': false, ' ': false, '€': false, '😀': false} {
		if IsWord(r) != want {
			t.Errorf("%q: got %t, want %t", r, !want, want)
		}
	}
}
