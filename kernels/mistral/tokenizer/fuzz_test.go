package tokenizer

import (
	"encoding/base64"
	"fmt"
	"slices"
	"strings"
	"testing"
)

// small is a small file with each kind of part, so that every place can be changed.
const small = `{"version":"1.0","added_tokens":[
{"id":0,"content":"<unk>","special":true},{"id":1,"content":"<s>","special":true},
{"id":9,"content":"[x]","lstrip":true,"rstrip":true},{"id":10,"content":"a b","single_word":true,"normalized":true}],
"normalizer":{"type":"Sequence","normalizers":[{"type":"Prepend","prepend":"▁"},
{"type":"Replace","pattern":{"String":" "},"content":"▁"}]},
"post_processor":{"type":"TemplateProcessing","single":[{"SpecialToken":{"id":"<s>"}},{"Sequence":{"id":"A"}}],"special_tokens":{"<s>` +
	`":{"ids":[1]}}},
"decoder":{"type":"Sequence","decoders":[{"type":"Replace","pattern":{"String":"▁"},"content":" ` +
	`"},{"type":"ByteFallback"},{"type":"Fuse"},{"type":"Strip","content":" ","start":1,"stop":0}]},
"model":{"type":"BPE","unk_token":"<unk>","fuse_unk":true,"byte_fallback":true,
"vocab":{"<unk>":0,"<s>":1,"<0xE2>":2,"<0x82>":3,"<0xAC>":4,"▁":5,"a":6,"b":7,"▁a":8},"merges":["▁ a"]}}`

const smallBytes = `{"version":"1.0","added_tokens":[{"id":0,"content":"<s>","special":true},{"id":7,"content":"[x]","rstrip":true}],
"normalizer":{"type":"NFC"},
"pre_tokenizer":{"type":"Sequence","pretokenizers":[{"type":"Digits","individual_digits":true},
{"type":"Split","pattern":{"Regex":"(?i:'s)| ?\\p{L}++|\\s+(?!\\S)"},"behavior":"Removed","invert":true},{"type":"ByteLevel",` +
	`"add_prefix_space":true}]},
"post_processor":{"type":"Sequence","processors":[{"type":"ByteLevel","add_prefix_space":true},
{"type":"TemplateProcessing","single":[{"SpecialToken":{"id":"<s>"}},{"Sequence":{"id":"A"}}],"special_tokens":{"<s>":{"ids":[0]}}}]},
"decoder":{"type":"ByteLevel","add_prefix_space":true},
"model":{"type":"BPE","ignore_merges":true,"vocab":{"<s>":0,"Ġ":1,"a":2,"Ã":3,"©":4,"Ġa":5,"Ã©":6},"merges":["Ã ©"]}}`

// mostText bounds texts in bytes where the file's expressions are arbitrary: some take exponential time.
const mostText = 24

// An accepted file must encode and decode.
func FuzzParse(f *testing.F) {
	f.Add([]byte(small), "a b€ [x] c")
	f.Add([]byte(strings.Replace(small, `"normalizer":{`,
		`"pre_tokenizer":{"type":"Metaspace","replacement":"▁"},"normalizer":null,"padding":{`, 1)), "a  b")
	f.Add([]byte(smallBytes), "a é 1's [x] aaé")
	f.Add([]byte(strings.Replace(small, `"▁ a"`, `["▁","a"]`, 1)), "")
	f.Fuzz(func(t *testing.T, data []byte, text string) {
		tok, err := parse(data)
		if err != nil {
			if strings.ContainsAny(err.Error(), "\n\r") {
				t.Fatalf("%q is not one line", err)
			}
			return
		}
		if tok.Vocab() > len(data) {
			t.Fatalf("%d tokens in %d bytes", tok.Vocab(), len(data))
		}
		check(t, tok, text[:min(len(text), mostText)])
	})
}

// The bytes are left out: the fuzzer would spend its time on them.
func FuzzTekken(f *testing.F) {
	var bytes strings.Builder
	for b := range 256 {
		fmt.Fprintf(&bytes, `{"rank":%d,"token_bytes":"%s"},`, b, base64.StdEncoding.EncodeToString([]byte{byte(b)}))
	}
	const tail = `{"rank":256,"token_bytes":"YWE="}],"config":{"pattern":" ` +
		`?\\p{L}+|\\s","default_vocab_size":260,"default_num_special_tokens":3,"version":"v13"},
"special_tokens":[{"rank":0,"token_str":"<s>","is_control":true}],"image":{}}`
	f.Add(tail, "aa é")
	f.Add(strings.Replace(tail, "260", "259", 1), "aaaa")
	f.Fuzz(func(t *testing.T, tail, text string) {
		tok, err := parseTekken([]byte(`{"vocab":[` + bytes.String() + tail))
		if err != nil {
			if strings.ContainsAny(err.Error(), "\n\r") {
				t.Fatalf("%q is not one line", err)
			}
			return
		}
		check(t, tok, text[:min(len(text), mostText)])
	})
}

func FuzzText(f *testing.F) {
	var toks []*Tokenizer
	for _, style := range []string{"normalizer", "metaspace"} {
		toks = append(toks, open(f, style))
	}
	for _, kind := range byteLevelKinds {
		toks = append(toks, openByteLevel(f, kind))
	}
	for _, text := range append(texts(f, 44), byteTexts(f, 48)...) {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		for _, tok := range toks {
			check(t, tok, text)
			ids := make([]int32, len(text))
			for i := range ids {
				ids[i] = int32(text[i]) + 2 // usually bytes
			}
			stream(t, tok.Stream(), ids)
		}
	})
}

func check(t *testing.T, tok *Tokenizer, text string) {
	ids := tok.Encode(text)
	for _, id := range ids {
		if id < 0 || int(id) >= tok.Vocab() {
			t.Fatalf("%q: id %d of %d", text, id, tok.Vocab())
		}
	}
	if again := tok.Encode(text); !slices.Equal(ids, again) {
		t.Fatalf("%q: %v and %v", text, ids, again)
	}
	stream(t, tok.Stream(), ids)
}
