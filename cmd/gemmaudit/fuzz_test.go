package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/results"
	"github.com/gemmaudit/gemmaudit/rules/verdict"
	"github.com/gemmaudit/gemmaudit/sweep"
)

// FuzzState reads the state that a run stores besides samples: the results of audits and splits, and a
// sweep's records. Every command must end with a documented exit code, and its text must not contain terminal
// control characters.
func FuzzState(f *testing.F) {
	path := filepath.Join(f.TempDir(), "run.db")
	for _, args := range [][]string{
		{"sweep", "-q", "--shape", "n256k256", "--batch", "32:160:16", "--dtype", "fp32", "--kernel", "dented", "--rounds", "12", "--out",
			path},
		{"audit", path, "--confirm"},
		{"splits", path, "--execute"},
	} {
		sim := newSimulation() // a command closes its device
		if code, stderr := on(sim, sim, args...); code != exitClean && code != exitGate {
			f.Fatalf("%v: exit code %d: %s", args, code, stderr)
		}
	}
	run, err := results.Open(path)
	if err != nil {
		f.Fatal(err)
	}
	keys := []string{verdict.StateAudit, verdict.StateSplits, stateRules, sweep.StateStatus, sweep.StateEfficiency, sweep.StateDrift,
		sweep.StateInvalid,
		sweep.StateRotation, sweep.StateNotes, sweep.StateTimes, sweep.StateKnown}
	for i, key := range keys {
		text, _, err := run.State(key)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(uint8(i), text)
		f.Add(uint8(i), strings.Replace(text, `":"`, `":"\u001b[31m`, 3))
	}
	if err := run.Close(); err != nil {
		f.Fatal(err)
	}
	whole, err := os.ReadFile(path)
	if err != nil {
		f.Fatal(err)
	}
	now := newSimulation().device.Now
	f.Fuzz(func(t *testing.T, which uint8, text string) {
		path := filepath.Join(t.TempDir(), "run.db")
		if err := os.WriteFile(path, whole, 0o600); err != nil {
			t.Fatal(err)
		}
		run, err := results.OpenAppend(path)
		if err != nil {
			t.Fatal(err)
		}
		if err := run.SetState(keys[int(which)%len(keys)], text); err != nil {
			t.Fatal(err)
		}
		if err := run.Close(); err != nil {
			t.Fatal(err)
		}
		for _, args := range [][]string{
			{"audit", path}, {"audit", path, "-o", "json"}, {"splits", path, "-o", "markdown"}, {"table", path, "--out", "-"},
		} {
			var out, stderr bytes.Buffer
			a := newApp(nil, &out, &stderr, os.LookupEnv, func() []kernels.Provider { return nil })
			a.now = now
			code := a.main(args)
			if code < exitClean || code > exitInconclusive {
				t.Fatalf("%v: exit code %d: %s", args, code, stderr.String())
			}
			for _, text := range []string{out.String(), stderr.String()} {
				if i := strings.IndexFunc(text, func(r rune) bool { return unicode.IsControl(r) && r != '\n' }); i >= 0 {
					t.Fatalf("%v writes %.60q", args, text[i:])
				}
			}
			if args[len(args)-1] == "json" && out.Len() > 0 && !json.Valid(out.Bytes()) {
				t.Fatalf("%v writes no JSON: %.200s", args, out.String())
			}
		}
	})
}

func FuzzTokens(f *testing.F) {
	for _, s := range []string{"[1,2,3]", `{"prompt_tokens":[1],"tokens":[2,3]}`, `{"tokens":null}`, "[1e9]", "[-1]", "null", "[[1]]", ""} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		path := filepath.Join(t.TempDir(), "tokens.json")
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
		tokens, err := readTokens(path)
		if err != nil {
			return
		}
		if !json.Valid(data) || len(tokens) > len(data) {
			t.Fatalf("%q is read as %d tokens", data, len(tokens))
		}
	})
}

func FuzzShares(f *testing.F) {
	for _, s := range []string{"2%", "0.02", " 100 % ", "101%", "NaN", "-0", "0.953", "inf%"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if v, err := parseGain(s); err == nil && !(v >= 0 && v <= 1) {
			t.Fatalf("%q is read as %g", s, v)
		}
		if p := asPercent(s); p != s && !strings.HasSuffix(p, " %") {
			t.Fatalf("%q is %q", s, p)
		}
	})
}
