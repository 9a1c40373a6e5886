package tokenizer

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// byteLevelKinds are the fixtures of scripts/make_bytelevel_fixtures.py.
var byteLevelKinds = []string{"llama3", "qwen2", "gpt2", "tekken"}

func byteTexts(t testing.TB, count int) []string {
	t.Helper()
	return textsOf(t, "byte_pieces.json", count)
}

func byteFile(t testing.TB, kind string) (string, func([]byte) (*Tokenizer, error)) {
	t.Helper()
	reader := parse
	if kind == "tekken" {
		reader = parseTekken
	}
	return string(contents(t, kind+".json")), reader
}

// openByteLevel opens a kind after replacing the first text of each edit by the second in its file.
func openByteLevel(t testing.TB, kind string, edits ...[2]string) *Tokenizer {
	t.Helper()
	file, reader := byteFile(t, kind)
	for _, e := range edits {
		if n := strings.Count(file, e[0]); n != 1 {
			t.Fatalf("%s is %d times in %s", e[0], n, kind)
		}
		file = strings.Replace(file, e[0], e[1], 1)
	}
	tok, err := reader([]byte(file))
	if err != nil {
		t.Fatal(err)
	}
	return tok
}

func TestLibraryAgreesOnBytes(t *testing.T) {
	all := byteTexts(t, 10_000)
	for _, kind := range byteLevelKinds {
		t.Run(kind, func(t *testing.T) {
			expected := lines(t, kind+"_expected.gz")
			if len(expected) != len(all) {
				t.Fatalf("%d results for %d strings", len(expected), len(all))
			}
			tok := openByteLevel(t, kind)
			for i, text := range all {
				ids, decoded, _ := strings.Cut(expected[i], "\t")
				checkEqual(t, tok, text, ids, decoded)
			}
		})
	}
}

func TestLibraryAgreesOnByteVariants(t *testing.T) {
	all := byteTexts(t, 10_000)
	rest := lines(t, "byte_variants.gz")
	for len(rest) > 0 {
		var variant struct {
			Name, Style string
			Edits       [][2]string
		}
		if err := json.Unmarshal([]byte(rest[0]), &variant); err != nil {
			t.Fatal(err)
		}
		end := slices.Index(rest, "")
		if end < 0 {
			end = len(rest)
		}
		results := rest[1:end]
		rest = rest[min(end+1, len(rest)):]
		t.Run(variant.Name, func(t *testing.T) {
			tok := openByteLevel(t, variant.Style, variant.Edits...)
			for i, result := range results {
				ids, decoded, _ := strings.Cut(result, "\t")
				checkEqual(t, tok, all[i], ids, decoded)
			}
		})
	}
}

func TestRefusedByteLevel(t *testing.T) {
	const (
		bytes     = `{"type":"ByteLevel","add_prefix_space":false,"trim_offsets":true,"use_regex":false}`
		inGPT2    = `"pre_tokenizer":{"type":"ByteLevel","add_prefix_space":false,`
		behavior  = `"behavior":"Isolated"`
		decoder   = `"decoder":{"type":"ByteLevel","add_prefix_space":true,`
		processor = `"processors":[{"type":"ByteLevel","add_prefix_space":true,`
		cuts      = "expected Split and Digits in front of one ByteLevel"
	)
	for _, c := range []struct {
		name, kind, old, new, want string
	}{
		{"behavior", "llama3", behavior, `"behavior":"MergedWithNext"`,
			`pre_tokenizer: found behavior "MergedWithNext" in Split, expected Isolated or Removed`},
		{"text", "llama3", `"pattern":{"Regex":`, `"pattern":{"String":`,
			`pre_tokenizer: found no regular expression in Split, expected a Regex`},
		{"field of Split", "llama3", behavior, behavior + `,"extra":1`, `pre_tokenizer: json: unknown field "extra"`},
		{"expression", "llama3", `"Regex":"(?i:`, `"Regex":"\\b(?i:`,
			`pre_tokenizer: regular expression: "\\b(?i:'s" at byte 0: this escape is not supported`},
		{"script", "llama3", `{1,3}`, `{1,3}|\\p{Han}`,
			`pre_tokenizer: regular expression: "\\p{Han}|" at byte 65: this escape is not supported`},
		{"other step", "llama3", bytes, `{"type":"Punctuation"},` + bytes,
			`pre_tokenizer: found "Sequence" of ["Split", "Punctuation", "ByteLevel"], ` + cuts},
		{"two ByteLevel", "llama3", bytes, bytes + `,` + bytes,
			`pre_tokenizer: found "Sequence" of ["Split", "ByteLevel", "ByteLevel"], ` + cuts},
		{"Split behind", "llama3", bytes, bytes + `,{"type":"Split"}`,
			`pre_tokenizer: found "Sequence" of ["Split", "ByteLevel", "Split"], ` + cuts},
		{"no add_prefix_space", "gpt2", inGPT2, `"pre_tokenizer":{"type":"ByteLevel",`,
			`pre_tokenizer: found no add_prefix_space in ByteLevel, expected true or false`},
		{"field of ByteLevel", "gpt2", inGPT2, inGPT2 + `"extra":1,`, `pre_tokenizer: json: unknown field "extra"`},
		{"fallback", "llama3", `"byte_fallback":false,"ignore_merges":true,"vocab":{"!":0,`,
			`"byte_fallback":true,"ignore_merges":true,"vocab":{"lost":0,`,
			`model: found byte_fallback true in byte-level BPE whose vocabulary lacks bytes, expected false`},
		{"decoder", "llama3", decoder, `"decoder":{"type":"Fuse","add_prefix_space":true,`,
			`decoder: found "Fuse", expected ByteLevel as in pre_tokenizer`},
		{"no decoder", "llama3", decoder, `"decoder":null,"truncation":{`, `decoder: found null, expected ByteLevel as in pre_tokenizer`},
		{"two templates", "llama3", processor,
			`"processors":[{"type":"TemplateProcessing","single":[{"Sequence":{"id":"A","type_id":0}}]},{"type":"ByteLevel",` +
				`"add_prefix_space":true,`,
			`post_processor: found "Sequence" of ["TemplateProcessing", "ByteLevel", "TemplateProcessing"], expected a Sequence of ` +
				`ByteLevel and one TemplateProcessing`},
		{"processor in a sequence", "llama3", processor,
			`"processors":[{"type":"RobertaProcessing"},{"type":"ByteLevel","add_prefix_space":true,`,
			`post_processor: found "RobertaProcessing", expected null, ByteLevel, TemplateProcessing or a Sequence of both`},

		{"unknown part", "tekken", `"config":{`, `"chat":1,"config":{`, `json: unknown field "chat"`},
		{"unknown part of config", "tekken", `"config":{`, `"config":{"merges":1,`, `json: unknown field "merges"`},
		{"version", "tekken", `"version":"v3"`, `"version":"v4"`, `config: found version "v4", expected v1, v2, v3, v7, v11, v13, v15`},
		{"no special tokens", "tekken", `"version":"v3"`, `"version":"v11"`, `special_tokens: missing, expected in version v11`},
		{"rank of a special token", "tekken", `"config":{`, `"special_tokens":[{"rank":1,"token_str":"<s>","is_control":true}],"config":{`,
			`special_tokens: found rank 1 of "<s>", expected 0`},
		{"special token twice", "tekken", `"config":{`,
			`"special_tokens":[{"rank":0,"token_str":"<s>","is_control":true},{"rank":1,"token_str":"<s>","is_control":true}],"config":{`,
			`special_tokens: "<s>" is listed twice`},
		{"no first token", "tekken", `"config":{`, `"special_tokens":[],"config":{`,
			`special_tokens: "<s>" is missing, which begins a text`},
		{"few special tokens", "tekken", `"default_num_special_tokens":100`, `"default_num_special_tokens":19`,
			`config: found default_num_special_tokens 19, expected at least 20, as there are so many`},
		{"many special tokens", "tekken", `"default_num_special_tokens":100`, `"default_num_special_tokens":1000000000`,
			`config: found default_num_special_tokens 1000000000, expected 0 to 65536`},
		{"large", "tekken", `"default_vocab_size":1600`, `"default_vocab_size":1000000000`,
			`config: found default_vocab_size 1000000000, expected 356 to 1900: 100 special tokens, at least the 256 bytes, at most the ` +
				`1800 tokens of vocab`},
		{"small", "tekken", `"default_vocab_size":1600`, `"default_vocab_size":355`,
			`config: found default_vocab_size 355, expected 356 to 1900: 100 special tokens, at least the 256 bytes, at most the 1800 ` +
				`tokens of vocab`},
		{"pattern", "tekken", `"pattern":"`, `"pattern":"^`,
			`config: pattern: regular expression: "^[^\\r\\n\\" at byte 0: anchors are not supported`},
		{"rank", "tekken", `"rank":300,`, `"rank":301,`, `vocab: found rank 301, expected 300`},
		{"no bytes", "tekken", `{"rank":7,"token_bytes":"Bw==",`, `{"rank":7,`, `vocab: rank 7: token_bytes is missing`},
		{"other byte", "tekken", `"token_bytes":"Bw=="`, `"token_bytes":"Bg=="`,
			`vocab: rank 7: found "\x06", expected the byte of that value`},
		{"not base64", "tekken", `"token_bytes":"Bw=="`, `"token_bytes":"Bw="`, `vocab: rank 7: found token_bytes "Bw=", expected base64`},
		{"empty token", "tekken", `"token_bytes":"Bw=="`, `"token_bytes":""`, `vocab: rank 7: is empty`},
		{"bytes no text", "tekken", `"token_bytes":"Bw=="`, `"token_bytes":"` + strings.Repeat("gICA", 20) + `"`,
			`vocab: rank 7: found ""…, expected the byte of that value`},
		{"merges", "tekken", `"token_str":"\u0007"}`, `"token_str":"\u0007","merge":1}`, `json: unknown field "merge"`},
	} {
		t.Run(c.name, func(t *testing.T) {
			file, reader := byteFile(t, c.kind)
			if n := strings.Count(file, c.old); n != 1 {
				t.Fatalf("%s is %d times in %s", c.old, n, c.kind)
			}
			_, err := reader([]byte(strings.Replace(file, c.old, c.new, 1)))
			if err == nil || err.Error() != c.want {
				t.Errorf("got  %v\nwant %s", err, c.want)
			}
		})
	}
}

func TestTekkenTokenTwice(t *testing.T) {
	file, _ := byteFile(t, "tekken")
	first := strings.Index(file, `{"rank":400,"token_bytes":"`) + len(`{"rank":400,"token_bytes":"`)
	second := strings.Index(file, `{"rank":401,"token_bytes":"`) + len(`{"rank":401,"token_bytes":"`)
	word := file[first : first+strings.IndexByte(file[first:], '"')]
	other := second + strings.IndexByte(file[second:], '"')
	_, err := parseTekken([]byte(file[:second] + word + file[other:]))
	if err == nil || !strings.HasPrefix(err.Error(), "vocab: ranks 400 and 401 are both ") {
		t.Errorf("got %v", err)
	}
}

func TestOpenTekken(t *testing.T) {
	file, _ := byteFile(t, "tekken")
	path := filepath.Join(t.TempDir(), "tekken.json")
	if err := os.WriteFile(path, []byte(file), 0o600); err != nil {
		t.Fatal(err)
	}
	tok, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	if tok.Vocab() != 1600 {
		t.Errorf("%d ids, want 1600", tok.Vocab())
	}
	for token, want := range map[string]int32{"<s>": 1, "[INST]": 3, "<SPECIAL_99>": 99, "\n": 110, "\xff": 355} {
		if id, ok := tok.ids[token]; id != want || !ok {
			t.Errorf("id of %q: %d, %t, want %d", token, id, ok, want)
		}
	}
	// Special tokens in the text stay text.
	if got := tok.Encode("<s>"); len(got) < 2 || got[0] != 1 || slices.Contains(got[1:], 1) {
		t.Errorf("<s> is %v", got)
	}
}

func TestBytesOfCharacters(t *testing.T) {
	for _, kind := range []string{"llama3", "tekken"} {
		tok := openByteLevel(t, kind)
		special := tok.before[0]
		for _, c := range []struct {
			bytes string
			parts []string
		}{
			{"\xf0\x9f\x98\x80", []string{"", "", "", "😀", ""}},
			{"\xe2\x82a", []string{"", "", "\uFFFDa", ""}},
			{"\xe2\x82", []string{"", "", "\uFFFD"}},
			{"\xf0\x9f\x98\xe2\x82\xac", []string{"", "", "", "\uFFFD", "", "€", ""}},
			{"\x82\x83", []string{"\uFFFD", "\uFFFD", ""}},
			{"\xed\xa0\x80", []string{"", "\uFFFD\uFFFD", "\uFFFD", ""}},
			{"\xc0\xff", []string{"\uFFFD", "\uFFFD", ""}},
			{"\xc3|\x9f", map[string][]string{"llama3": {"", "", "ß", ""}, "tekken": {"", "\uFFFD", "\uFFFD", ""}}[kind]},
		} {
			var ids []int32
			for i := range len(c.bytes) {
				id := tok.model.bytes[c.bytes[i]]
				if c.bytes[i] == '|' {
					id = special
				}
				ids = append(ids, id)
			}
			s := tok.Stream()
			for range 2 { // Flush starts a new text
				for i, id := range ids {
					if got := s.Next(id); got != c.parts[i] {
						t.Errorf("%s: %q: part %d is %q, want %q", kind, c.bytes, i, got, c.parts[i])
					}
				}
				if got := s.Flush(); got != c.parts[len(ids)] {
					t.Errorf("%s: %q: the rest is %q, want %q", kind, c.bytes, got, c.parts[len(ids)])
				}
			}
		}
	}
}

// Includes orders of ids that no text has.
func TestStreamOfAnyBytes(t *testing.T) {
	for _, kind := range byteLevelKinds {
		tok := openByteLevel(t, kind)
		rapid.Check(t, func(t *rapid.T) {
			id := rapid.OneOf(rapid.Custom(func(t *rapid.T) int32 { return tok.model.bytes[rapid.Byte().Draw(t, "byte")] }),
				rapid.Int32Range(-1, int32(tok.Vocab())))
			ids := rapid.SliceOfN(id, 0, 30).Draw(t, "ids")
			stream(t, tok.Stream(), ids)
		})
	}
}

// Merges by the definition: of all neighbors with a common token, those of the lowest rank, leftmost first.
func TestRankedByDefinition(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := bpe{vocab: map[string]int32{}, unknown: -1, byteLevel: true, ranked: true, whole: true}
		words := []string{"a", "b", "c"}
		for i, w := range words {
			m.bytes[w[0]] = int32(i)
		}
		for range rapid.IntRange(0, 14).Draw(t, "words") {
			words = append(words, rapid.StringOfN(rapid.SampledFrom([]rune("abc")), 2, 6, -1).Draw(t, "word"))
		}
		for i, w := range words {
			if _, ok := m.vocab[w]; !ok {
				m.vocab[w] = int32(i)
			}
		}
		text := rapid.StringOfN(rapid.SampledFrom([]rune("abc")), 0, 40, -1).Draw(t, "text")
		parts := strings.Split(text, "")
		for {
			best, at := int32(len(words)), -1
			for i := range len(parts) - 1 {
				if id, ok := m.vocab[parts[i]+parts[i+1]]; ok && id < best {
					best, at = id, i
				}
			}
			if at < 0 {
				break
			}
			parts = slices.Replace(parts, at, at+2, parts[at]+parts[at+1])
		}
		var want []int32
		for _, p := range parts {
			if p != "" {
				want = append(want, m.vocab[p])
			}
		}
		if got := m.word().encode(nil, text); !slices.Equal(got, want) {
			t.Fatalf("%q: %v, by the definition %v", text, got, want)
		}
	})
}

// Compares with package norm.
func TestComposed(t *testing.T) {
	zalgo := "a" + strings.Repeat("\u0301", 40)
	for text, want := range map[string]string{
		"e\u0301":                   "é",
		"e\u0323\u0302":             "ệ",
		"e\u0302\u0323":             "ệ",
		zalgo:                       "á" + zalgo[3:],
		"\u1100\u1161\u11a8":        "각",
		"\uac00\u11a8\u11a8":        "각\u11a8",
		"\u0344":                    "\u0308\u0301",
		"\u2126\u212b":              "ΩÅ",
		"a\u1df8\u0323":             "a\u1df8\u0323", // added in Unicode 10.0, which would swap them
		"\U00011935\U00011930":      "\U00011935\U00011930",
		"\u09c7\u09be":              "\u09cb",
		"\u0301\u0323":              "\u0323\u0301",
		"a\u0323\u0301\u1dfa\u0301": "ạ\u0301\u1dfa\u0301",
	} {
		if got := composed(text); got != want {
			t.Errorf("%+q: %+q, want %+q", text, got, want)
		}
	}
}
