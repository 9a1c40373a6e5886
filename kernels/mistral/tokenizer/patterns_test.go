package tokenizer

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"
)

// The expected matches are Oniguruma's; the script checks that Rust's engine agrees.
func TestEnginesAgree(t *testing.T) {
	all := byteTexts(t, 10_000)
	rest := lines(t, "patterns.gz")
	for len(rest) > 0 {
		var head struct {
			Pattern string
			Strings int
		}
		if err := json.Unmarshal([]byte(rest[0]), &head); err != nil {
			t.Fatal(err)
		}
		expected := rest[1 : 1+head.Strings]
		rest = rest[1+head.Strings:]
		p, err := compile(head.Pattern)
		if err != nil {
			t.Errorf("%s: %v", head.Pattern, err)
			continue
		}
		for i, want := range expected {
			var got []string
			text := all[i]
			p.Each(text, func(start, stop int, match bool) {
				if match {
					got = append(got, fmt.Sprint(utf8.RuneCountInString(text[:start]), utf8.RuneCountInString(text[:stop])))
				}
			})
			if got := strings.Join(got, " "); got != want {
				t.Errorf("%s in %q:\n got %s\nwant %s", head.Pattern, text, got, want)
			}
		}
	}
}
