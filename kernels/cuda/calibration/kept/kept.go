// Package kept keeps the constants that were measured on the cards of a machine, a file each in a
// folder of the user's: by the card's name, the driver's version and the program's version, since
// what was measured under one of each says little of another.
package kept

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/gemmaudit/gemmaudit/kernels/cuda/calibration"
	"github.com/gemmaudit/gemmaudit/kernels/regular"
)

// Env names another folder; [None] as its value stands for none, so that constants that ship are in force.
const (
	Env  = "GEMMAUDIT_CALIBRATION"
	None = "none"
)

// MostBytes bounds a file; a card takes an eighth of that.
const MostBytes = 64 << 10

// mostFiles bounds how many files of a folder are looked into.
const mostFiles = 1000

// Store is the folder; the zero value keeps nothing and has nothing.
type Store struct{ Dir string }

// Find is the folder of the user whose environment variables are looked up by getenv.
func Find(getenv func(string) string) Store {
	switch dir := getenv(Env); {
	case dir == None:
		return Store{}
	case dir != "":
		return Store{dir}
	}
	base := getenv("XDG_CONFIG_HOME")
	if !filepath.IsAbs(base) { // as the specification has it
		home := getenv("HOME")
		if !filepath.IsAbs(home) {
			return Store{}
		}
		base = filepath.Join(home, ".config")
	}
	return Store{filepath.Join(base, "gemmaudit", "calibration")}
}

// Key is what constants are kept by.
type Key struct{ Card, Driver, Program string }

func keyOf(c *calibration.Card) Key { return Key{c.Card, c.Driver, c.Program} }

// Path is the file of a key.
func (s Store) Path(k Key) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%q %q %q", k.Card, k.Driver, k.Program))
	return filepath.Join(s.Dir, strings.Join([]string{word(k.Card), word(k.Driver), word(k.Program), hex.EncodeToString(sum[:4])}, "_")+ending)
}

const ending = ".json"

// word is what is readable of a name in the name of a file.
func word(s string) string {
	const longest = 40
	s = strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= '0' && r <= '9', r == '.', r == '-':
			return r
		case r >= 'A' && r <= 'Z':
			return r - 'A' + 'a'
		}
		return '-'
	}, s)
	return strings.Trim(s[:min(len(s), longest)], ".-")
}

// Load is what is kept under a key; nil where nothing is. What can't be read, and what is no card that
// was measured so, is an error that names the file.
func (s Store) Load(k Key) (*calibration.Card, error) {
	if s.Dir == "" {
		return nil, nil
	}
	path := s.Path(k)
	c, err := read(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil
	case err != nil:
		return nil, err
	case keyOf(c) != k:
		return nil, fmt.Errorf("%s: constants of %s, driver %s, by version %s, expected those of %s, driver %s, by version %s", path, c.Card, c.Driver, c.Program, k.Card, k.Driver, k.Program)
	}
	return c, nil
}

// read reads a file, as far as one may be long.
func read(path string) (*calibration.Card, error) {
	f, err := regular.OpenBeside(path, os.O_RDONLY, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, MostBytes+1))
	if err != nil {
		return nil, err
	}
	if len(text) > MostBytes {
		return nil, fmt.Errorf("%s: more than %d bytes, expected the constants of a card", path, MostBytes)
	}
	c, err := calibration.Parse(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return c, nil
}

// Save keeps the constants of a card and returns the file. That is whole or as it was, and takes the place of
// a link rather than to write through it.
func (s Store) Save(c *calibration.Card) (path string, err error) {
	if s.Dir == "" {
		return "", fmt.Errorf("there is no folder to keep constants in")
	}
	if err := os.MkdirAll(s.Dir, 0o755); err != nil {
		return "", err
	}
	path = s.Path(keyOf(c))
	draft, err := os.CreateTemp(s.Dir, "."+filepath.Base(path)+".*"+unfinished)
	if err != nil {
		return "", err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.Remove(draft.Name()))
		}
	}()
	_, err = draft.Write(c.Encode())
	if err = errors.Join(err, draft.Chmod(0o644), draft.Sync(), draft.Close()); err != nil {
		return "", err
	}
	return path, os.Rename(draft.Name(), path)
}

// unfinished ends the names of files in the making.
const unfinished = ".part"

// Others are the keys under which more is kept of a card than under k, the last that was measured first.
func (s Store) Others(k Key) ([]Key, error) {
	var found []*calibration.Card
	err := s.each(func(_ string, c *calibration.Card) error {
		if c.Card == k.Card && keyOf(c) != k {
			found = append(found, c)
		}
		return nil
	})
	slices.SortStableFunc(found, func(a, b *calibration.Card) int { return strings.Compare(b.Date, a.Date) })
	var keys []Key
	for _, c := range found {
		keys = append(keys, keyOf(c))
	}
	return keys, err
}

// Forget removes everything that is kept of a card, under all drivers and by all programs, and returns
// the files. It removes what lies under its key though it can't be read.
func (s Store) Forget(k Key) (removed []string, err error) {
	if s.Dir == "" {
		return nil, nil
	}
	remove := func(path string) error {
		err := os.Remove(path)
		if err == nil {
			removed = append(removed, path)
		}
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return err
	}
	if err := remove(s.Path(k)); err != nil {
		return removed, err
	}
	return removed, s.each(func(path string, c *calibration.Card) error {
		if c.Card != k.Card {
			return nil
		}
		return remove(path)
	})
}

// each calls do with every card that can be read.
func (s Store) each(do func(path string, c *calibration.Card) error) error {
	if s.Dir == "" {
		return nil
	}
	entries, err := os.ReadDir(s.Dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, e := range entries[:min(len(entries), mostFiles)] {
		if !e.Type().IsRegular() || filepath.Ext(e.Name()) != ending || strings.HasPrefix(e.Name(), ".") {
			continue
		}
		path := filepath.Join(s.Dir, e.Name())
		c, err := read(path)
		if err != nil {
			continue // somebody else's
		}
		if err := do(path, c); err != nil {
			return err
		}
	}
	return nil
}
