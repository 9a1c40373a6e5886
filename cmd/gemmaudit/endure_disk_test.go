package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"
)

// diskVariable names the folder where a test process, in its own mount namespace, mounts its disks.
const diskVariable = "GEMMAUDIT_TEST_DISK"

// TestEndureFullDisk runs every command on a disk that fills up after a number of pages: each insufficient
// number, or mostTurns of them. It then frees space and runs the command again. So each write that needs a
// page fails in turn, in any file. The disks are private tmpfs mounts, which need root or a user namespace.
// Each number of pages has its own disk; as many run at a time as there are processors.
func TestEndureFullDisk(t *testing.T) {
	if !*endureDisk {
		t.Skip("make endure runs it")
	}
	if parent := os.Getenv(diskVariable); parent != "" {
		endureFullDisk(t, parent)
		return
	}
	c := exec.Command(os.Args[0], append(os.Args[1:], "-test.run", "^TestEndureFullDisk$")...)
	c.Env = append(os.Environ(), diskVariable+"="+t.TempDir())
	c.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS, Pdeathsig: syscall.SIGKILL}
	if os.Geteuid() != 0 {
		c.SysProcAttr.Cloneflags |= syscall.CLONE_NEWUSER
		c.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}}
		c.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}}
	}
	runtime.LockOSThread() // the child dies with the thread that started it
	defer runtime.UnlockOSThread()
	out, err := c.CombinedOutput()
	t.Logf("%s", out)
	if err != nil {
		t.Fatalf("a process with a mount namespace of its own: %v", err)
	}
}

type disk string

const page = 4096

const roomy = 1 << 30

// newDisk mounts a disk in a new folder below parent. The disk is not empty, because tmpfs treats size 0 as
// unlimited.
func newDisk(parent string) (disk, error) {
	dir, err := os.MkdirTemp(parent, "disk-")
	if err != nil {
		return "", err
	}
	if err := unix.Mount("endure", dir, "tmpfs", 0, fmt.Sprintf("size=%d", roomy)); err != nil {
		return "", fmt.Errorf("mount a file system in memory: %w", err)
	}
	return disk(dir), os.WriteFile(filepath.Join(dir, "ballast"), []byte{1}, 0o600)
}

func (d disk) resize(bytes int64) error {
	if err := unix.Mount("endure", string(d), "tmpfs", unix.MS_REMOUNT, fmt.Sprintf("size=%d", bytes)); err != nil {
		return fmt.Errorf("size the disk to %d bytes: %w", bytes, err)
	}
	return nil
}

// remove unmounts the disk and its content. A process that is just starting may keep the disk busy, because
// it has a copy of this process's open files until exec.
func (d disk) remove() error {
	if err := unix.Unmount(string(d), unix.MNT_DETACH); err != nil {
		return fmt.Errorf("remove the disk: %w", err)
	}
	return os.Remove(string(d))
}

func (d disk) leave(pages int) error {
	var s unix.Statfs_t
	if err := unix.Statfs(string(d), &s); err != nil {
		return err
	}
	return d.resize(int64(s.Blocks-s.Bfree)*s.Bsize + int64(pages)*page)
}

// mostTurns limits the page counts tried per command. Sweeps need over a thousand pages, nearly all for
// similar samples.
const mostTurns = 250

// exactly is the largest page count that is found exactly; above it, to within a
// sixteenth.
const exactly = 2 * mostTurns

type filled struct {
	*ordeal
	sync.Mutex
	enough map[int]bool // those that were tried
	took   time.Duration
}

func (f *filled) full() (n int) {
	for _, enough := range f.enough {
		if !enough {
			n++
		}
	}
	return n
}

func (f *filled) least() (pages int) {
	for n, enough := range f.enough {
		if enough && (pages == 0 || n < pages) {
			pages = n
		}
	}
	return pages
}

// unnoticed returns an error if a number of pages was enough although a larger one was not: then a write
// failed without a message.
func (f *filled) unnoticed() error {
	least := f.least()
	for pages, enough := range f.enough {
		if !enough && least > 0 && pages > least {
			return fmt.Errorf("%s: %d pages are said to be enough, and %d are not", f.name, least, pages)
		}
	}
	return nil
}

func (f *filled) String() string {
	of := "an unknown number of moments"
	switch least := f.least(); {
	case least > exactly:
		of = fmt.Sprintf("about %d moments", least)
	case least > 0:
		of = fmt.Sprintf("%d moments", least)
	}
	each := f.took.Seconds() / float64(max(1, len(f.enough)))
	return fmt.Sprintf("%-8s the disk was full at %d of %s, %.2f s each", f.name, f.full(), of, each)
}

// endureFullDisk tests all commands in the process that mounts its disks below parent.
func endureFullDisk(t *testing.T, parent string) {
	began := time.Now()
	seed := seedOfEndurance()
	t.Logf("seed %d", seed)
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		t.Fatalf("keep mounts to this process: %v", err)
	}
	// The checks' copies must have space on a full disk.
	checks, err := newDisk(parent)
	if err != nil {
		t.Fatal(err)
	}
	r := &relay{endurance: newEndurance(t, string(checks), 1), disks: parent, places: make(chan struct{}, runtime.GOMAXPROCS(0))}
	all := make([]*filled, len(ordeals))
	for i, o := range ordeals {
		all[i] = &filled{ordeal: o, enough: map[int]bool{}}
	}
	within, stop := context.WithDeadline(t.Context(), deadline(began))
	defer stop()
	err = r.goThrough(within, all, seed)
	for _, f := range all {
		t.Log(f)
		if f.full() == 0 && err == nil {
			t.Errorf("%s: the disk was never full", f.name)
		}
		err = errors.Join(err, f.unnoticed())
	}
	if err != nil {
		t.Fatalf("%v\nagain: make endure KILLS=0 SIGNALS=0 SEED=%d", err, seed)
	}
}

type relay struct {
	*endurance
	disks  string        // parent of the mount points
	places chan struct{} // limits the turns in parallel
}

// goThrough finds the sufficient number of pages for each command. Then it draws smaller numbers for all
// commands in turn, so a short test gives each command equally many. It starts no turn after ctx ends.
func (r *relay) goThrough(ctx context.Context, all []*filled, seed uint64) error {
	seekers, seeking := errgroup.WithContext(ctx)
	for _, f := range all {
		seekers.Go(func() error { return r.seek(seeking, f) })
	}
	if err := seekers.Wait(); err != nil {
		return err
	}
	draws := make([][]int, len(all))
	for i, f := range all {
		left := mostTurns - f.full()
		for _, pages := range rand.New(rand.NewPCG(seed, uint64(i))).Perm(f.least()) {
			if _, tried := f.enough[pages]; !tried && len(draws[i]) < left {
				draws[i] = append(draws[i], pages)
			}
		}
	}
	drawers, drawing := errgroup.WithContext(ctx)
	drawers.SetLimit(cap(r.places))
	for k := range mostTurns {
		for i, f := range all {
			if k < len(draws[i]) && drawing.Err() == nil {
				drawers.Go(func() error {
					_, err := r.turn(f, draws[i][k])
					return err
				})
			}
		}
	}
	return drawers.Wait()
}

// seek searches for the sufficient number of pages. It assumes that more pages than enough are also enough,
// because a command behaves the same until its disk is full.
func (r *relay) seek(ctx context.Context, f *filled) error {
	const first, share = 16, 16
	low, high := 0, 0 // not enough, enough; 0 means unknown
	for high == 0 || high-low > 1 && (high <= exactly || high-low > high/share) {
		pages := (low + high) / 2
		if high == 0 {
			pages = max(first, 2*low)
		}
		if ctx.Err() != nil {
			return nil
		}
		enough, err := r.turn(f, pages)
		if err != nil {
			return err
		}
		if enough {
			high = pages
		} else {
			low = pages
		}
	}
	return nil
}

func (r *relay) turn(f *filled, pages int) (enough bool, err error) {
	r.places <- struct{}{}
	defer func() { <-r.places }()
	began := time.Now()
	d, err := newDisk(r.disks)
	if err != nil {
		return false, err
	}
	enough, err = r.fill(f.ordeal, d, pages)
	if err := errors.Join(err, d.remove()); err != nil {
		return false, fmt.Errorf("%s with %d pages left of the disk: %w", f.name, pages, err)
	}
	f.Lock()
	defer f.Unlock()
	f.enough[pages] = enough
	f.took += time.Since(began)
	return enough, nil
}

// fill runs a command with the given number of free pages and reports whether they were enough. If not, it
// requires an error with the reason, sound files, and a successful restart with more space.
func (e *endurance) fill(o *ordeal, d disk, pages int) (enough bool, err error) {
	onDisk := *e
	onDisk.parent, onDisk.scratch = string(d), string(d)
	dir, err := onDisk.prepare(o)
	if err != nil {
		return false, err
	}
	if err := d.leave(pages); err != nil {
		return false, err
	}
	end, err := onDisk.start(dir, o.first, blow{})
	if grown := d.resize(roomy); err == nil {
		err = grown
	}
	if err != nil {
		return false, err
	}
	kept, err := e.check(o, dir, nil, true)
	if err != nil {
		return false, fmt.Errorf("%w, after %v", err, end)
	}
	full := strings.Contains(end.stderr, "disk full") || strings.Contains(end.stderr, "no space left")
	switch {
	case end.own(o.code) && !full:
		return true, e.finish(o, dir)
	case end.own(o.code) && o.code == exitGate: // takes precedence over errors after the verdict
	case !end.own(exitDevice) || !full:
		return false, fmt.Errorf("%v, expected exit code %d and that the disk is full", end, exitDevice)
	}
	if args := o.next(dir); args != nil {
		if end, err = e.start(dir, args, blow{}); err != nil {
			return false, err
		}
		if !end.own(o.code) {
			return false, fmt.Errorf("with room again: %v, expected exit code %d", end, o.code)
		}
	}
	if _, err := e.check(o, dir, kept, true); err != nil {
		return false, fmt.Errorf("with room again: %w", err)
	}
	return false, e.finish(o, dir)
}

// A number that is enough although a larger one is not indicates a silent write failure.
func TestUnnoticedFullDisk(t *testing.T) {
	f := filled{ordeal: ordeals[0], enough: map[int]bool{3: false, 4: true, 5: true}}
	if err := f.unnoticed(); err != nil || f.least() != 4 || f.full() != 1 {
		t.Errorf("%v, %d are enough, %d are not: expected no error, 4 and 1", err, f.least(), f.full())
	}
	if f.enough[6] = false; f.unnoticed() == nil {
		t.Error("5 pages are enough and 6 are not, and nothing was said")
	}
}
