package tokenizer

import (
	"bufio"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// texts are the strings that scripts/make_tokenizer_fixtures.py gave to the library.
func texts(t testing.TB, count int) []string {
	t.Helper()
	return textsOf(t, "pieces.json", count)
}

func textsOf(t testing.TB, pieces string, count int) []string {
	t.Helper()
	var kinds []struct {
		Name   string
		Most   uint64
		Pieces []string
		Ranges [][2]uint64
	}
	if err := json.Unmarshal(contents(t, pieces), &kinds); err != nil {
		t.Fatal(err)
	}
	state := uint64(1)
	below := func(n uint64) uint64 { // splitmix64
		state += 0x9E3779B97F4A7C15
		z := state
		z = (z ^ z>>30) * 0xBF58476D1CE4E5B9
		z = (z ^ z>>27) * 0x94D049BB133111EB
		return (z ^ z>>31) % n
	}
	all := make([]string, count)
	for i := range all {
		kind := kinds[i%len(kinds)]
		pieces := uint64(len(kind.Pieces))
		for range below(kind.Most + 1) {
			if choice := below(pieces + uint64(len(kind.Ranges))); choice < pieces {
				all[i] += kind.Pieces[choice]
			} else {
				r := kind.Ranges[choice-pieces]
				all[i] += string(rune(r[0] + below(r[1]-r[0]+1)))
			}
		}
	}
	return all
}

func contents(t testing.TB, name string) []byte {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func lines(t testing.TB, name string) []string {
	t.Helper()
	file, err := os.Open(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	z, err := gzip.NewReader(file)
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	scanner := bufio.NewScanner(z)
	scanner.Buffer(nil, 1<<20)
	for scanner.Scan() {
		all = append(all, scanner.Text())
	}
	if err := scanner.Err(); err != nil {
		t.Fatal(err)
	}
	return all
}

func open(t testing.TB, style string) *Tokenizer {
	t.Helper()
	tok, err := Open(filepath.Join("testdata", style+".json"))
	if err != nil {
		t.Fatal(err)
	}
	return tok
}

func checkEqual(t *testing.T, tok *Tokenizer, text, ids, decoded string) {
	t.Helper()
	want := text
	if decoded != "=" {
		if err := json.Unmarshal([]byte(decoded), &want); err != nil {
			t.Fatal(err)
		}
	}
	got := tok.Encode(text)
	if s := strings.Trim(fmt.Sprint(got), "[]"); s != ids {
		t.Errorf("encode %q:\n got %s\nwant %s", text, s, ids)
	}
	if s := stream(t, tok.Stream(), got); s != want {
		t.Errorf("decode the ids of %q:\n got %q\nwant %q", text, s, want)
	}
	if ordinary := got[len(tok.before) : len(got)-len(tok.after)]; !slices.Equal(tok.EncodeOrdinary(text), ordinary) {
		t.Errorf("encode %q without special tokens: got %v, want %v", text, tok.EncodeOrdinary(text), ordinary)
	}
}

func TestLibraryAgrees(t *testing.T) {
	styles := []string{"normalizer", "metaspace"}
	all := texts(t, 10_000)
	expected := lines(t, "expected.gz")
	if len(expected) != len(all) {
		t.Fatalf("%d results for %d strings", len(expected), len(all))
	}
	for i, style := range styles {
		t.Run(style, func(t *testing.T) {
			tok := open(t, style)
			for j, text := range all {
				fields := strings.Split(expected[j], "\t")
				checkEqual(t, tok, text, fields[2*i], fields[2*i+1])
			}
		})
	}
}

func TestLibraryAgreesOnVariants(t *testing.T) {
	all := texts(t, 10_000)
	rest := lines(t, "variants.gz")
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
			tok, err := parse(edit(t, variant.Style, variant.Edits...))
			if err != nil {
				t.Fatal(err)
			}
			for j, result := range results {
				ids, decoded, _ := strings.Cut(result, "\t")
				checkEqual(t, tok, all[j], ids, decoded)
			}
		})
	}
}

// edit returns a fixture after replacing the first text of each edit, which must be unique, by the second.
func edit(t testing.TB, style string, edits ...[2]string) []byte {
	t.Helper()
	file := string(contents(t, style+".json"))
	for _, e := range edits {
		if n := strings.Count(file, e[0]); n != 1 {
			t.Fatalf("%s is %d times in %s", e[0], n, style)
		}
		file = strings.Replace(file, e[0], e[1], 1)
	}
	return []byte(file)
}

func TestTokens(t *testing.T) {
	tok := open(t, "normalizer")
	if got := tok.Vocab(); got != 1546 {
		t.Errorf("%d ids, want 1546", got)
	}
	for _, want := range []struct {
		token string
		id    int32
		ok    bool
	}{{"<unk>", 0, true}, {"<s>", 1, true}, {"<0x0A>", 13, true}, {"<pad>", 1536, true}, {"no such token", 0, false}} {
		if id, ok := tok.ids[want.token]; id != want.id || ok != want.ok {
			t.Errorf("id of %q: %d, %t, want %d, %t", want.token, id, ok, want.id, want.ok)
		}
	}
	for id := range int32(tok.Vocab()) {
		stream(t, tok.Stream(), []int32{id})
	}
	if got := stream(t, tok.Stream(), []int32{-1, 1546, 1 << 30}); got != "" {
		t.Errorf("ids that do not exist give %q", got)
	}
}

// Two results must not share the memory after the template's ids.
func TestResultsAreApart(t *testing.T) {
	tok, err := parse(edit(t, "metaspace", [2]string{`"ids":[1]`, `"ids":[1,1,1]`}))
	if err != nil {
		t.Fatal(err)
	}
	first := tok.Encode("a")
	before := slices.Clone(first)
	if tok.Encode("b"); !slices.Equal(first, before) {
		t.Errorf("%v became %v", before, first)
	}
}

// Valid UTF-8 must not change.
func TestInvalidText(t *testing.T) {
	for _, tok := range []*Tokenizer{open(t, "metaspace"), openByteLevel(t, "llama3"), openByteLevel(t, "tekken")} {
		for text, same := range map[string]string{"a\xff\xfeb": "a\uFFFDb", "\xe2\x82": "\uFFFD", "\xed\xa0\x80x": "\uFFFDx"} {
			if got, want := tok.Encode(text), tok.Encode(same); !slices.Equal(got, want) {
				t.Errorf("%q: %v, want those of %q, %v", text, got, same, want)
			}
		}
	}
}

// Compares with words merged as a whole. Small vocabularies with overlapping merges would show wrong cuts.
func TestSegments(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		vocab := vocabulary{"<unk>": 0, "a": 1, "b": 2, "c": 3, "▁": 4, "<0x3F>": 5}
		tokens := []string{"a", "b", "c", "▁"}
		if rapid.Bool().Draw(t, "literal") { // tokens that do not spell their characters
			tokens = append(tokens, "<unk>", "<0x3F>")
		}
		var merges []mergeOf
		for range rapid.IntRange(0, 12).Draw(t, "merges") {
			m := mergeOf{rapid.SampledFrom(tokens).Draw(t, "left"), rapid.SampledFrom(tokens).Draw(t, "right")}
			merges = append(merges, m)
			if token := m[0] + m[1]; vocab[token] == 0 {
				vocab[token] = int64(len(vocab))
				tokens = append(tokens, token)
			}
		}
		cut := bpe{
			unknown:  rapid.Int32Range(-1, 0).Draw(t, "unknown"),
			fuse:     rapid.Bool().Draw(t, "fuse"),
			fallback: rapid.Bool().Draw(t, "fallback"),
		}
		cut.readVocab(vocab)
		if err := cut.readMerges(merges, vocab); err != nil {
			t.Fatal(err)
		}
		whole := cut
		whole.whole = true
		text := rapid.StringOfN(rapid.SampledFrom([]rune("abc▁?")), 0, 60, -1).Draw(t, "text")
		got, want := cut.word().encode(nil, text), whole.word().encode(nil, text)
		if !slices.Equal(got, want) {
			t.Fatalf("%q in segments: %v, as a whole %v", text, got, want)
		}
		if naive := naively(&cut, merges, vocab, text); !slices.Equal(got, naive) {
			t.Fatalf("%q: %v, by the definition %v", text, got, naive)
		}
	})
}

// naively merges by the definition: the first pair of lowest rank, until there is none.
func naively(m *bpe, merges []mergeOf, vocab vocabulary, text string) []int32 {
	var ids []int32
	unknown := false
	for _, r := range text {
		id, ok := m.chars[r]
		switch {
		case ok:
			ids = append(ids, id)
		case m.fallback:
			ids = append(ids, m.bytes['?'])
		case m.unknown >= 0 && !(unknown && m.fuse):
			ids = append(ids, m.unknown)
		}
		unknown = !ok
	}
	for {
		best, at := merge{rank: int32(len(merges))}, -1
		for i := range len(ids) - 1 {
			if found, ok := m.merges[pair(ids[i], ids[i+1])]; ok && found.rank < best.rank {
				best, at = found, i
			}
		}
		if at < 0 {
			return ids
		}
		ids = slices.Replace(ids, at, at+2, best.id)
	}
}
