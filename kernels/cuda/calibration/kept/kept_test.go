package kept

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/gemmaudit/gemmaudit/kernels/cuda/calibration"
)

// card is one that was measured.
func card(t testing.TB, k Key, date string) *calibration.Card {
	t.Helper()
	cards, err := calibration.Cards()
	if err != nil {
		t.Fatal(err)
	}
	c := cards[0].Clone()
	c.Card, c.Driver, c.Program, c.Date = k.Card, k.Driver, k.Program, date
	return c
}

func TestFind(t *testing.T) {
	for _, c := range []struct {
		env  map[string]string
		want string
	}{
		{nil, ""},
		{map[string]string{"HOME": "/home/u"}, "/home/u/.config/gemmaudit/calibration"},
		{map[string]string{"HOME": "u"}, ""},
		{map[string]string{"HOME": "/home/u", "XDG_CONFIG_HOME": "/etc/u"}, "/etc/u/gemmaudit/calibration"},
		{map[string]string{"HOME": "/home/u", "XDG_CONFIG_HOME": "u"}, "/home/u/.config/gemmaudit/calibration"},
		{map[string]string{"HOME": "/home/u", Env: "here"}, "here"},
		{map[string]string{"HOME": "/home/u", Env: None}, ""},
	} {
		if got := Find(func(name string) string { return c.env[name] }); got.Dir != c.want {
			t.Errorf("%v: %q, want %q", c.env, got.Dir, c.want)
		}
	}
}

// What is kept is found under its key alone, is replaced, and is forgotten for all drivers.
func TestStore(t *testing.T) {
	s := Store{filepath.Join(t.TempDir(), "a", "b")}
	k := Key{"NVIDIA H200", "580.1", "v1.0"}
	load := func(k Key, want string) {
		t.Helper()
		c, err := s.Load(k)
		if err != nil {
			t.Fatal(err)
		}
		if got := map[bool]string{true: "", false: "?"}[c == nil]; c == nil && want != "" || c != nil && c.Date != want {
			t.Errorf("%v: %+v%s, want %q", k, c, got, want)
		}
	}
	load(k, "")
	if removed, err := s.Forget(k); err != nil || removed != nil {
		t.Errorf("forgot %v, %v", removed, err)
	}
	path, err := s.Save(card(t, k, "2026-11-22"))
	if err != nil || path != s.Path(k) || !strings.HasPrefix(filepath.Base(path), "nvidia-h200_580.1_v1.0_") {
		t.Fatalf("%s, %v", path, err)
	}
	load(k, "2026-11-22")
	if _, err := s.Save(card(t, k, "2026-11-23")); err != nil {
		t.Fatal(err)
	}
	load(k, "2026-11-23")
	driver, program, other := k, k, k
	driver.Driver, program.Program, other.Card = "575.2", "v1.1", "NVIDIA H100"
	for _, k := range []Key{driver, program, other} {
		load(k, "")
		if _, err := s.Save(card(t, k, "2026-11-2"+k.Driver[1:2])); err != nil {
			t.Fatal(err)
		}
	}
	if others, err := s.Others(k); err != nil || !slices.Equal(others, []Key{program, driver}) {
		t.Errorf("others are %v, %v", others, err)
	}
	if entries, err := os.ReadDir(s.Dir); err != nil || len(entries) != 4 {
		t.Errorf("%d files, %v", len(entries), err)
	}
	removed, err := s.Forget(k)
	if err != nil || len(removed) != 3 {
		t.Errorf("forgot %v, %v", removed, err)
	}
	load(k, "")
	load(driver, "")
	load(other, "2026-11-28")
	if c, err := (Store{}).Load(k); c != nil || err != nil {
		t.Errorf("without a folder there is %+v, %v", c, err)
	}
	if _, err := (Store{}).Save(card(t, k, "2026-11-22")); err == nil {
		t.Error("kept without a folder")
	}
}

// What is no file, too long or of another card is told by its path, and nothing is written through a link.
func TestRefuses(t *testing.T) {
	s := Store{t.TempDir()}
	k := Key{"NVIDIA H200", "580.1", "v1.0"}
	path := s.Path(k)
	other := k
	other.Driver = "570.1"
	for _, c := range []struct {
		make func() error
		want string
	}{
		{func() error { return os.WriteFile(path, []byte("{"), 0o644) }, "unexpected EOF"},
		{func() error { return os.WriteFile(path, bytes.Repeat([]byte(" "), MostBytes+1), 0o644) }, "more than 65536 bytes"},
		{func() error { return os.WriteFile(path, card(t, other, "2026-11-22").Encode(), 0o644) }, "driver 570.1, by version v1.0, expected those of NVIDIA H200, driver 580.1"},
		{func() error { return os.Mkdir(path, 0o755) }, "is a folder"},
		{func() error { return os.Symlink(filepath.Join(s.Dir, "far"), path) }, "is a symbolic link"},
	} {
		if err := os.RemoveAll(path); err != nil {
			t.Fatal(err)
		}
		if err := c.make(); err != nil {
			t.Fatal(err)
		}
		if got, err := s.Load(k); got != nil || err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), path) {
			t.Errorf("%+v, %v, want %q of %s", got, err, c.want, path)
		}
	}
	if _, err := s.Save(card(t, k, "2026-11-22")); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Lstat(filepath.Join(s.Dir, "far")); err == nil {
		t.Error("it was written through a link")
	}
	if c, err := s.Load(k); err != nil || c == nil {
		t.Errorf("after it was kept: %+v, %v", c, err)
	}
	entries, err := os.ReadDir(s.Dir)
	if err != nil || len(entries) != 1 {
		t.Errorf("%d files are left, %v", len(entries), err)
	}
}

// No two keys share a file, whatever they hold, and each file lies in the folder.
func TestPathProperty(t *testing.T) {
	s := Store{"/kept"}
	rapid.Check(t, func(t *rapid.T) {
		draw := func(name string) Key {
			return Key{rapid.String().Draw(t, name), rapid.String().Draw(t, name), rapid.String().Draw(t, name)}
		}
		a, b := draw("a"), draw("b")
		if filepath.Dir(s.Path(a)) != "/kept" || strings.HasPrefix(filepath.Base(s.Path(a)), ".") {
			t.Fatalf("%q", s.Path(a))
		}
		if a != b && s.Path(a) == s.Path(b) {
			t.Fatalf("%q and %q are both %q", a, b, s.Path(a))
		}
	})
}
