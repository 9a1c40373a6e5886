package draft

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"
)

// childVariable makes the test binary hold drafts of the named target until it is killed.
const childVariable = "GEMMAUDIT_TEST_DRAFT_OF"

func TestMain(m *testing.M) {
	if target := os.Getenv(childVariable); target != "" {
		_, err := File(target)
		folder, err2 := Folder(target)
		if err != nil || err2 != nil {
			fmt.Fprintln(os.Stderr, err, err2)
			os.Exit(1)
		}
		if err := os.WriteFile(filepath.Join(folder.Path(), "content"), nil, 0o644); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		fmt.Println("held")
		time.Sleep(time.Hour)
	}
	os.Exit(m.Run())
}

func holder(t *testing.T, target string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childVariable+"="+target)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
	if line, err := bufio.NewReader(out).ReadString('\n'); line != "held\n" {
		t.Fatalf("the holder said %q: %v", line, err)
	}
	return cmd
}

func names(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, e := range entries {
		out = append(out, e.Name())
	}
	return out
}

func TestDraftsOfKilledProcessesAreRemoved(t *testing.T) {
	dir := t.TempDir()
	target := filepath.Join(dir, "run[1].db")
	// Similar names belong to others.
	kept := []string{".run[1].db.7", ".run[1].db..part", ".run[1].db.x7.part", ".run1.db.7.part", ".run[1].db.8.part"}
	for _, name := range kept[:4] {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(".run[1].db.7", filepath.Join(dir, kept[4])); err != nil {
		t.Fatal(err)
	}
	dies := holder(t, target)
	lives := holder(t, target)
	if got := names(t, dir); len(got) != len(kept)+4 {
		t.Fatalf("two holders left %q", got)
	}
	if err := dies.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	dies.Wait()
	d, err := File(target)
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	if got := names(t, dir); len(got) != len(kept)+2 {
		t.Errorf("%q are there, expected the two drafts of the process that lives and %q", got, kept)
	}
	if err := lives.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	lives.Wait()
	if d, err = Folder(target); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(d.Path(), target); err != nil {
		t.Fatal(err)
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	want := append(slices.Clone(kept), filepath.Base(target))
	slices.Sort(want)
	if got := names(t, dir); !slices.Equal(got, want) {
		t.Errorf("%q are there, expected %q", got, want)
	}
}

// A draft must not be removed before its maker has the lock.
func TestDraftsSideBySide(t *testing.T) {
	dir := t.TempDir()
	var wait sync.WaitGroup
	for range 8 {
		wait.Go(func() {
			for range 200 {
				d, err := File(filepath.Join(dir, "out"))
				if err != nil {
					t.Error(err)
					return
				}
				if err := os.Rename(d.Path(), filepath.Join(dir, "out")); err != nil {
					t.Error(err)
				}
				if err := d.Close(); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wait.Wait()
	if got := names(t, dir); !slices.Equal(got, []string{"out"}) {
		t.Errorf("%q are there", got)
	}
}

func TestDraftsNeedTheirFolder(t *testing.T) {
	if _, err := File(filepath.Join(t.TempDir(), "absent", "out")); !os.IsNotExist(err) {
		t.Errorf("error %v", err)
	}
}
