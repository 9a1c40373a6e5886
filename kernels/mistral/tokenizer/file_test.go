package tokenizer

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestRefused(t *testing.T) {
	const (
		normalizer = `"normalizer":null`
		space      = `"pre_tokenizer":{"type":"Metaspace","replacement":"▁","prepend_scheme":"first","split":false}`
		strip      = `{"type":"Strip","content":" ","start":1,"stop":0}`
		single     = `"single":[{"SpecialToken":{"id":"<s>","type_id":0}},{"Sequence":{"id":"A","type_id":0}}]`
		pad        = `{"id":1536,"content":"<pad>"`
	)
	change := func(old, new string) [2]string { return [2]string{old, new} }
	for _, c := range []struct {
		name string
		edit [2]string
		want string
	}{
		{"other version", change(`"version":"1.0"`, `"version":"2.0"`), `found version "2.0", expected "1.0"`},
		{"unknown part", change(`"padding":null`, `"padding":null,"extra":1`), `json: unknown field "extra"`},
		{"WordPiece", change(`"type":"BPE"`, `"type":"WordPiece"`), `model: found "WordPiece", expected BPE`},
		{"Unigram", change(`"type":"BPE"`, `"type":"Unigram"`), `model: found "Unigram", expected BPE`},
		{"long type", change(`"type":"BPE"`, `"type":"`+strings.Repeat("é", 1000)+`"`),
			`model: found "` + strings.Repeat("é", 20) + `"…, expected BPE`},
		{"dropout", change(`"dropout":null`, `"dropout":0.1`), `model: found dropout 0.1, expected null or 0: ids would be random`},
		{"prefix", change(`"continuing_subword_prefix":null`, `"continuing_subword_prefix":"##"`),
			`model: found continuing_subword_prefix "##", expected null`},
		{"suffix", change(`"end_of_word_suffix":null`, `"end_of_word_suffix":"</w>"`),
			`model: found end_of_word_suffix "</w>", expected null`},
		{"unknown field of the model", change(`"dropout":null`, `"cache":1`), `model: json: unknown field "cache"`},
		{"no such unknown token", change(`"unk_token":"<unk>"`, `"unk_token":"<what>"`),
			`model: found unk_token "<what>", expected one of the vocabulary`},

		{"normalizer", change(normalizer, `"normalizer":{"type":"NFKC"}`),
			`normalizer: found "NFKC", expected null, NFC or a Sequence of Prepend, Replace and NFC`},
		{"normalizer in a sequence", change(normalizer, `"normalizer":{"type":"Sequence","normalizers":[{"type":"Strip"}]}`),
			`normalizer: found "Strip", expected null, NFC or a Sequence of Prepend, Replace and NFC`},
		{"sequence in a sequence",
			change(normalizer, `"normalizer":{"type":"Sequence","normalizers":[{"type":"Sequence","normalizers":[]}]}`),
			`normalizer: found "Sequence" of [] in a Sequence, expected Prepend, Replace and NFC`},
		{"regular expression", change(normalizer, `"normalizer":{"type":"Replace","pattern":{"Regex":" +"},"content":"▁"}`),
			`normalizer: found the regular expression " +" in Replace, expected a String`},
		{"empty pattern", change(normalizer, `"normalizer":{"type":"Replace","pattern":{"String":""},"content":"▁"}`),
			`normalizer: found an empty pattern in Replace, expected a String`},
		{"normalizer that doubles a text again and again",
			change(normalizer,
				`"normalizer":{"type":"Sequence","normalizers":[`+
					strings.Repeat(`{"type":"Replace","pattern":{"String":"a"},"content":"aa"},`, 40)+`{"type":"NFC"}]}`),
			`normalizer: steps 1 to 5 of 41, up to the Replace of "a" by "aa", can make a text 32 times as long, expected at most 16 ` +
				`times`},
		{"long prefixes",
			change(normalizer,
				`"normalizer":{"type":"Sequence","normalizers":[`+
					strings.Repeat(`{"type":"Prepend","prepend":"`+strings.Repeat("a", 100)+`"},`, 40)+`{"type":"NFC"}]}`),
			`normalizer: steps 1 to 3 of 41 put 300 bytes before a text, expected at most 256`},
		{"normalizer and Metaspace", change(normalizer, `"normalizer":{"type":"Prepend","prepend":"▁"}`),
			`normalizer "Prepend" and pre_tokenizer Metaspace: expected one of the two`},

		{"other pre-tokenizer", change(space, `"pre_tokenizer":{"type":"Whitespace"}`),
			`pre_tokenizer: found "Whitespace", expected null, Metaspace, ByteLevel or a Sequence of Split, Digits and ByteLevel`},
		{"no type", change(space, `"pre_tokenizer":7`),
			`pre_tokenizer: found "", expected null, Metaspace, ByteLevel or a Sequence of Split, Digits and ByteLevel`},
		{"two characters", change(space, `"pre_tokenizer":{"type":"Metaspace","replacement":"__"}`),
			`pre_tokenizer: found replacement "__" in Metaspace, expected one character`},
		{"other scheme", change(space, `"pre_tokenizer":{"type":"Metaspace","replacement":"▁","prepend_scheme":"last"}`),
			`pre_tokenizer: found prepend_scheme "last" in Metaspace, expected always, first or never`},
		{"two schemes",
			change(space, `"pre_tokenizer":{"type":"Metaspace","replacement":"▁","add_prefix_space":false,"prepend_scheme":"first"}`),
			`pre_tokenizer: found add_prefix_space false and prepend_scheme "first" in Metaspace, expected never`},
		{"field of Metaspace", change(space, `"pre_tokenizer":{"type":"Metaspace","replacement":"▁","str_rep":"▁"}`),
			`pre_tokenizer: json: unknown field "str_rep"`},

		{"post-processor", change(`"type":"TemplateProcessing"`, `"type":"BertProcessing"`),
			`post_processor: found "BertProcessing", expected null, ByteLevel, TemplateProcessing or a Sequence of both`},
		{"template without a text", change(single, `"single":[]`), `post_processor: single: found the text 0 times, expected once`},
		{"template with B", change(single, `"single":[{"Sequence":{"id":"B","type_id":0}}]`),
			`post_processor: single: found a part that is neither the text A nor a special token`},
		{"template with an unknown token", change(single, `"single":[{"SpecialToken":{"id":"<x>","type_id":0}}]`),
			`post_processor: single: found token "<x>", expected one of special_tokens`},
		{"template of many ids",
			change(single,
				`"single":[`+strings.Repeat(`{"SpecialToken":{"id":"<s>","type_id":0}},`, 1025)+`{"Sequence":{"id":"A","type_id":0}}]`),
			`post_processor: single: found 1025 special tokens around a text, expected at most 1024`},
		{"template with a wrong id", change(`"ids":[1]`, `"ids":[1546]`), `post_processor: id 1546 of token "<s>": expected 0 to 1545`},

		{"decoder", change(`"type":"ByteFallback"`, `"type":"WordPiece"`),
			`decoder: found "Sequence" of ["Replace", "WordPiece", "Fuse", "Strip"], expected a Sequence of Replace, ByteFallback, Fuse ` +
				`and Strip in this order`},
		{"decoder that lengthens tokens",
			change(`"content":" "},{"type":"ByteFallback"}`, `"content":"`+strings.Repeat(" ", 60)+`"},{"type":"ByteFallback"}`),
			`decoder: steps 1 to 1 of 1, up to the Replace of "▁" by "` + strings.Repeat(" ", 40) +
				`"…, can make a text 20 times as long, expected at most 16 times`},
		{"decoder out of order", change(strip, `{"type":"Fuse"}`),
			`decoder: found "Sequence" of ["Replace", "ByteFallback", "Fuse", "Fuse"], expected a Sequence of Replace, ByteFallback, ` +
				`Fuse and Strip in this order`},
		{"strip of tokens", change(`{"type":"Fuse"},`, ``),
			`decoder: found "Sequence" of ["Replace", "ByteFallback", "Strip"], which strips each token on its own, expected a Sequence ` +
				`of Replace, ByteFallback, Fuse and Strip in this order`},
		{"strip of the end", change(strip, `{"type":"Strip","content":" ","start":1,"stop":1}`),
			`decoder: found content " ", start 1, stop 1 in Strip, expected one character, 0 or more, 0`},

		{"id too high", change(pad, `{"id":1546,"content":"<pad>"`),
			`id 1546 of token "<pad>": expected 0 to 1545, as there are 1546 tokens`},
		{"negative id", change(pad, `{"id":-1,"content":"<pad>"`), `id -1 of token "<pad>": expected 0 to 1545, as there are 1546 tokens`},
		{"id of another added token", change(pad, `{"id":1545,"content":"<pad>"`),
			`id 1545: belongs to the tokens "<pad>" and "big token"`},
		{"added token of another id", change(`{"id":1,"content":"<s>"`, `{"id":2,"content":"<s>"`),
			`added token "<s>": id 2, expected 1 as in the vocabulary`},
		{"added token twice", change(`{"id":2,"content":"</s>"`, `{"id":1,"content":"<s>"`), `added token "<s>": listed twice`},
		{"empty added token", change(pad, `{"id":1536,"content":""`), `added token "" of id 1536: matches nothing`},
		{"flag of an added token", change(pad, `{"id":1536,"lstrip_all":true,"content":"<pad>"`), `json: unknown field "lstrip_all"`},
		{"id of two tokens", change(`"<0x0A>":13`, `"<0x0A>":14`), `model: vocab: id 14 belongs to the tokens "<0x0A>" and "<0x0B>"`},
		{"token twice", change(`"<0x0A>":13`, `"<0x0A>":13,"<0x0A>":1537`), `model: vocab: token "<0x0A>" listed twice`},
		{"enormous id", change(`"<0x0A>":13`, `"<0x0A>":4294967309`),
			`model: vocab: id 4294967309 of token "<0x0A>": expected 0 to at most the number of tokens`},
		{"id with a gap", change(`"<0x0A>":13`, `"<0x0A>":200000000`),
			`id 200000000 of token "<0x0A>": expected 0 to 1545, as there are 1546 tokens`},
		{"broken id", change(`"<0x0A>":13`, `"<0x0A>":13.5`), `model: vocab: id "13.5" of token "<0x0A>": expected a whole number`},
		{"id that is no number", change(`"<0x0A>":13`, `"<0x0A>":{"a":1}`), `model: vocab: id of token "<0x0A>": expected a number`},

		{"merge of a missing token", change(`["o","r"]`, `["o","Ω"]`), `model: merge 2 of "o" and "Ω": "Ω" is not in the vocabulary`},
		{"merge into a missing token", change(`["o","r"]`, `["o","{"]`), `model: merge 2 of "o" and "{": "o{" is not in the vocabulary`},
		{"merge with nothing", change(`["o","r"]`, `["o",""]`), `model: merge 2 of "o" and "": "" is not in the vocabulary`},
		{"merge of three", change(`["o","r"]`, `["o","r","x"]`), `model: merge "[\"o\",\"r\",\"x\"]": found 3 tokens, expected two`},
		{"merge of three words", change(`["o","r"]`, `"o r x"`), `model: merge "\"o r x\"": found 3 tokens, expected two`},
		{"merge that is none", change(`["o","r"]`, `{"o":"r"}`), `model: merge "{\"o\":\"r\"}": expected two tokens`},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := parse(edit(t, "metaspace", c.edit))
			if err == nil || err.Error() != c.want {
				t.Errorf("got  %v\nwant %s", err, c.want)
			}
		})
	}
}

// The other fixture has a normalizer.
func TestRefusedNormalForms(t *testing.T) {
	for want, change := range map[string][2]string{
		`added token "big token" of id 1545: matches nothing`: {`{"type":"Prepend","prepend":"▁"}`,
			`{"type":"Replace","pattern":{"String":"big token"},"content":""}`},
		`added ` +
			`tokens of ids 1536 and 1545: both match "▁big▁token"`: {`"content":"<pad>","single_word":false,"lstrip":false,` +
			`"rstrip":false,"normalized":false`,
			`"content":"big▁token","single_word":false,"lstrip":false,"rstrip":false,"normalized":true`},
		`added token "" of id 1545: matches nothing`: {`"content":"big token"`, `"content":""`},
	} {
		if _, err := parse(edit(t, "normalizer", change)); err == nil || err.Error() != want {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}

func TestRefusedWithoutParts(t *testing.T) {
	for name, c := range map[string][2]string{
		"empty file":    {``, `JSON ends after 0 bytes in the middle of a value`},
		"no model":      {`{}`, `model: found null, expected BPE`},
		"model of null": {`{"model":null}`, `model: found null, expected BPE`},
		"empty model":   {`{"model":{}}`, `model: vocab: found no tokens`},
		"no decoder": {`{"model":{"vocab":{"a":0}}}`,
			`decoder: found null, expected a Sequence of Replace, ByteFallback, Fuse and Strip in this order`},
		"two values":      {`{} {}`, `more than one JSON value: the first ends at byte 2 of 5`},
		"vocab of a list": {`{"model":{"vocab":["a"]}}`, `model: vocab: expected an object of tokens and their ids`},
	} {
		if _, err := parse([]byte(c[0])); err == nil || err.Error() != c[1] {
			t.Errorf("%s: got %v, want %s", name, err, c[1])
		}
	}
}

func TestTruncated(t *testing.T) {
	whole := contents(t, "normalizer.json")
	whole = whole[:len(whole)-1] // the final newline may be missing
	for n := 0; n < len(whole); n += 97 {
		if _, err := parse(whole[:n]); err == nil || strings.Contains(err.Error(), "\n") {
			t.Errorf("the first %d of %d bytes: got %v, want an error of one line", n, len(whole), err)
		}
	}
}

func TestOpenNamesTheFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tokenizer.json")
	if _, err := Open(path); err == nil || !strings.Contains(err.Error(), path) {
		t.Errorf("missing file: got %v", err)
	}
	want := fmt.Sprintf("read tokenizer %s: not a file", filepath.Dir(path))
	if _, err := Open(filepath.Dir(path)); err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
	if err := os.WriteFile(path, []byte(`{"model":{"type":"Unigram"}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	want = fmt.Sprintf(`read tokenizer %s: model: found "Unigram", expected BPE`, path)
	if _, err := Open(path); err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
	file, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if err := file.Truncate(largest + 1); err != nil { // a sparse file takes no space
		t.Fatal(err)
	}
	want = fmt.Sprintf("read tokenizer %s: 268435457 bytes long, expected at most 268435456", path)
	if _, err := Open(path); err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}
