package main

import (
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// diskVariable names the folder that a test process, in a mount namespace of its own, takes for its disk.
const diskVariable = "GEMMAUDIT_TEST_DISK"

// TestEndureFullDisk gives every command a disk that is full after so many pages, for every number of pages that is too
// small or for mostTurns of them, then makes room and starts it again. So each write that needs a page fails in turn, of
// whatever file. The disk is a file system in memory, seen by nobody else, for which the test needs to be root or to be
// let have a user namespace.
func TestEndureFullDisk(t *testing.T) {
	if !*endureDisk {
		t.Skip("make endure runs it")
	}
	if dir := os.Getenv(diskVariable); dir != "" {
		endureFullDisk(t, disk(dir))
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

// disk is a folder with a file system in memory, of a size that changes.
type disk string

// page is what files on it grow by.
const page = 4096

// mostTurns bounds the numbers of pages of a command. Those that sweep need a thousand and more, of which most go to
// one sample like another.
const mostTurns = 250

// roomy is a size that no command fills.
const roomy = 1 << 30

func (d disk) mount() error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("keep mounts to this process: %w", err)
	}
	if err := unix.Mount("endure", string(d), "tmpfs", 0, fmt.Sprintf("size=%d", roomy)); err != nil {
		return fmt.Errorf("mount a file system in memory: %w", err)
	}
	return nil
}

// resize leaves so many bytes of the disk.
func (d disk) resize(bytes int64) error {
	if err := unix.Mount("endure", string(d), "tmpfs", unix.MS_REMOUNT, fmt.Sprintf("size=%d", bytes)); err != nil {
		return fmt.Errorf("size the disk to %d bytes: %w", bytes, err)
	}
	return nil
}

// leave has pages left beside what is used.
func (d disk) leave(pages int) error {
	var s unix.Statfs_t
	if err := unix.Statfs(string(d), &s); err != nil {
		return err
	}
	return d.resize(int64(s.Blocks-s.Bfree)*s.Bsize + int64(pages)*page)
}

// endureFullDisk goes through all commands in the process that has the disk.
func endureFullDisk(t *testing.T, d disk) {
	if err := d.mount(); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	until := deadline(began)
	seed := seedOfEndurance()
	t.Logf("seed %d", seed)
	e := newEndurance(t, t.TempDir())
	checks := e.scratch // has room while the disk has none
	var err error
	if e.parent, err = os.MkdirTemp(string(d), "folders-"); err != nil {
		t.Fatal(err)
	}
	for i, o := range ordeals {
		// A part of the time for each, where there is not enough for all.
		part := began.Add(until.Sub(began) * time.Duration(i+1) / time.Duration(len(ordeals)))
		turns := 0
		once := func(pages int) (enough bool) {
			enough, err := e.fill(o, d, pages, checks)
			if err != nil {
				t.Fatalf("%s with %d pages left of the disk: %v\nagain: make endure KILLS=0 SIGNALS=0 SEED=%d", o.name, pages, err, seed)
			}
			if !enough {
				turns++
			}
			return enough
		}
		most := 16
		for !once(most) {
			most *= 2
		}
		for _, pages := range rand.New(rand.NewPCG(seed, uint64(i))).Perm(most) {
			if time.Now().After(part) || turns >= mostTurns {
				break
			}
			once(pages)
		}
		t.Logf("%-8s the disk was full at %d of %d moments", o.name, turns, most)
		if turns == 0 {
			t.Errorf("%s: the disk was never full", o.name)
		}
	}
}

// fill runs a command with so many pages left, and says whether that was enough. If it was not, it wants an error that
// tells why, everything whole, and the command to go on when there is room.
func (e *endurance) fill(o *ordeal, d disk, pages int, checks string) (enough bool, err error) {
	dir, err := e.prepare(o)
	if err != nil {
		return false, err
	}
	defer func() {
		if err == nil {
			err = os.RemoveAll(dir)
		}
	}()
	if err := d.leave(pages); err != nil {
		return false, err
	}
	e.scratch = string(d)
	end, err := e.start(dir, o.first, blow{})
	e.scratch = checks
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
	case end.own(o.code) && o.code == exitGate: // which outranks what came after the verdict
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
