package worker

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/kernels/regular"
)

// exists returns an error unless a path names a file. The file's name is left to the caller.
func exists(path string) error {
	info, err := os.Stat(path)
	var at *fs.PathError
	switch {
	case errors.As(err, &at) && errors.Is(err, fs.ErrNotExist):
		return advised{at.Err, "looked for " + path}
	case err == nil && !info.Mode().IsRegular():
		err = &regular.Error{Path: path, Mode: info.Mode().Type()}
	}
	return err
}

// load loads a file and checks what the worker says of its kernels.
func (w *Worker) load(path string) (*file, error) {
	if err := w.start(); err != nil {
		return nil, err
	}
	w.looksIn(path)
	var told loadResult
	if err := w.ask("load", loadParams{path}, &told); err != nil {
		return nil, err
	}
	f := &file{path: path, told: told, sum: sumOf(told.Files)}
	switch {
	case len(told.Kernels) == 0:
		return nil, fmt.Errorf("it has no kernel: mark one with @gemmaudit.kernel(\"gemm\")")
	case len(told.Files) == 0:
		return nil, fmt.Errorf("worker %s named no file with its SHA-256", w.name)
	}
	for _, text := range told.Kernels {
		k, err := w.kernel(text)
		if err != nil {
			return nil, err
		}
		if slices.ContainsFunc(f.kernels, func(o *Kernel) bool { return o.text.Name == text.Name && o.operation == k.operation }) {
			return nil, fmt.Errorf("it has two kernels %q of %v: give one another name", text.Name, k.operation)
		}
		f.kernels = append(f.kernels, k)
	}
	w.files = append(w.files, f)
	w.settings = told.Settings
	return f, nil
}

const otherName = "in Python, name= of @gemmaudit.kernel gives it another name"

func (w *Worker) kernel(text kernelText) (*Kernel, error) {
	k := &Kernel{worker: w, text: text}
	var err error
	switch {
	case !kernels.ValidBroughtName(text.Name):
		return nil, fmt.Errorf("kernel name %q: expected a lower-case letter, then at most 31 lower-case letters, digits, - and _",
			text.Name)
	case text.Name == kernels.Ladder:
		return nil, advised{fmt.Errorf("kernel name %q selects gemmaudit's own kernels: expected another", text.Name), otherName}
	case kernels.ClashingName(w.set.host.Device, text.Name):
		err = fmt.Errorf("kernel name %q is taken on %s: expected another", text.Name, w.set.host.Device.Spec().ID)
		return nil, advised{err, otherName}
	}
	if k.operation, err = kernels.ParseOperation(text.Operation); err != nil {
		return nil, fmt.Errorf("kernel %s: %w", text.Name, err)
	}
	if k.dtypes, err = parsed(text.DTypes, kernels.ParseDType); err != nil {
		return nil, fmt.Errorf("kernel %s: %w", text.Name, err)
	}
	if k.layouts, err = parsed(text.Layouts, kernels.ParseLayout); err != nil {
		return nil, fmt.Errorf("kernel %s: %w", text.Name, err)
	}
	if k.halves, err = parsed(text.HalfSums, kernels.ParseDType); err != nil {
		return nil, fmt.Errorf("kernel %s: half_sums: %w", text.Name, err)
	}
	if len(k.dtypes) == 0 {
		return nil, fmt.Errorf("kernel %s names no data type", text.Name)
	}
	k.text.Description = oneLine(text.Description)
	return k, nil
}

// parsed parses words in order; the error is that of the first invalid one.
func parsed[T any](words []string, parse func(string) (T, error)) ([]T, error) {
	var out []T
	for _, word := range words {
		v, err := parse(word)
		if err != nil {
			return nil, err
		}
		out = append(out, v)
	}
	return out, nil
}

// sumOf returns the SHA-256 of one file, or one of several.
func sumOf(files []fileText) string {
	if len(files) == 1 {
		return oneLine(files[0].SHA256)
	}
	lines := make([]string, len(files))
	for i, f := range files {
		lines[i] = f.SHA256 + "  " + f.Name + "\n"
	}
	slices.Sort(lines)
	sum := sha256.Sum256([]byte(strings.Join(lines, "")))
	return hex.EncodeToString(sum[:])
}
