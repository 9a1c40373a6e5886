package main

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// slurmRequired names the environment variable that makes a missing Slurm a failure.
const slurmRequired = "GEMMAUDIT_SLURM_REQUIRED"

var slurmNodes = []string{"n1", "n2", "n3", "n4"}

// cluster is a real Slurm on this machine: a controller, and a daemon for each of four nodes of one core.
type cluster struct {
	t   *testing.T
	dir string
	env []string
}

// slurmConf is for a machine without systemd and munge. Short intervals keep the test fast.
const slurmConf = `ClusterName=audited
SlurmctldHost=%[2]s(127.0.0.1)
SlurmctldPort=%[3]d
SlurmUser=root
SlurmdUser=root
AuthType=auth/none
AuthInfo=cred_expire=5
CredType=cred/none
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SchedulerType=sched/backfill
SchedulerParameters=bf_interval=1,sched_interval=1,sched_min_interval=0,batch_sched_delay=0,nohold_on_prolog_fail
SwitchType=switch/none
MpiDefault=none
JobAcctGatherType=jobacct_gather/none
JobCompType=jobcomp/none
JobRequeue=1
KillWait=5
ReturnToService=2
StateSaveLocation=%[1]s/state
SlurmdSpoolDir=%[1]s/spool/%%n
SlurmctldPidFile=%[1]s/slurmctld.pid
SlurmdPidFile=%[1]s/%%n.pid
SlurmctldLogFile=%[1]s/log/slurmctld
SlurmdLogFile=%[1]s/log/%%n
PrologFlags=Alloc
Prolog=%[1]s/prolog
`

// slurmInit starts the daemons in a folder. As PID 1 of a namespace it inherits their orphans, and all of
// them end with it. A node with a file off-NAME has no power.
const slurmInit = `slurmctld -D >log/slurmctld.out 2>&1 &
for node in "$@"; do
  while :; do
    if [[ ! -e off-$node ]]; then SLURMD_NODENAME=$node slurmd -D -N "$node" >>"log/$node.out" 2>&1; fi
    sleep 0.2
  done &
done
while :; do wait; done`

// startSlurm starts a cluster that ends with the test, even if the test is killed. If Slurm cannot start, it
// skips the test.
func startSlurm(t *testing.T) *cluster {
	t.Helper()
	lacks := func(what string) {
		t.Helper()
		if os.Getenv(slurmRequired) != "" {
			t.Fatalf("%s, and %s is set", what, slurmRequired)
		}
		t.Skipf("%s: the jobs of scripts/slurm are not run", what)
	}
	t.Setenv("PATH", os.Getenv("PATH")+":/usr/sbin:/sbin")
	for _, name := range []string{"slurmctld", "slurmd", "sbatch", "scontrol", "unshare", "flock"} {
		if _, err := exec.LookPath(name); err != nil {
			lacks(name + " is not installed (Debian's packages slurmctld, slurmd and slurm-client)")
		}
	}
	if os.Getuid() != 0 {
		lacks("a node's daemon runs as root, and this is another user")
	}
	isolated := []string{"--pid", "--mount", "--fork", "--mount-proc", "--kill-child"}
	if out, err := exec.Command("unshare", append(isolated, "true")...).CombinedOutput(); err != nil {
		lacks(fmt.Sprintf("no namespace of processes can be made: %s", bytes.TrimSpace(out)))
	}
	host, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	host, _, _ = strings.Cut(host, ".")

	c := &cluster{t: t, dir: t.TempDir()}
	c.env = append(os.Environ(), "SLURM_CONF="+c.path("slurm.conf"))
	for _, name := range []string{"state", "spool", "log"} {
		c.check(os.Mkdir(c.path(name), 0o755))
	}
	ports := freePorts(t, 1+len(slurmNodes))
	conf := fmt.Sprintf(slurmConf, c.dir, host, ports[0])
	for i, node := range slurmNodes {
		conf += fmt.Sprintf("NodeName=%s NodeHostname=%s NodeAddr=127.0.0.1 Port=%d CPUs=1\n", node, host, ports[i+1])
	}
	conf += "PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP\n"
	c.write("slurm.conf", conf, 0o644)
	c.write("prolog", "#!/bin/bash\n[[ ! -e "+c.path("check")+" ]] || exec "+c.path("check")+"\n", 0o755)

	init := exec.Command("unshare", append(isolated, append([]string{"bash", "-c", slurmInit, "slurm"}, slurmNodes...)...)...)
	init.Dir, init.Env = c.dir, c.env
	var said bytes.Buffer
	init.Stdout, init.Stderr = &said, &said
	init.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	started, ended := make(chan error), make(chan struct{})
	go func() {
		// The kernel sends the signal when the thread that started the process ends.
		runtime.LockOSThread()
		defer close(ended)
		err := init.Start()
		started <- err
		if err == nil {
			_ = init.Wait() // it is always killed
		}
	}()
	c.check(<-started)
	t.Cleanup(func() {
		_ = init.Process.Kill()
		<-ended
		if t.Failed() {
			t.Logf("daemons: %s", &said)
			c.tell("log/slurmctld")
		}
	})
	c.within(30*time.Second, "the nodes to be idle", func() bool {
		out, err := c.run("sinfo", "--noheader", "--Node", "--format=%t")
		return err == nil && strings.Count(out, "idle\n") == len(slurmNodes)
	})
	return c
}

func freePorts(t *testing.T, n int) []int {
	t.Helper()
	var ports []int
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		ports = append(ports, l.Addr().(*net.TCPAddr).Port)
	}
	return ports
}

func (c *cluster) path(name string) string { return filepath.Join(c.dir, name) }

func (c *cluster) check(err error) {
	c.t.Helper()
	if err != nil {
		c.t.Fatal(err)
	}
}

func (c *cluster) write(name, text string, mode os.FileMode) {
	c.t.Helper()
	c.check(os.WriteFile(c.path(name), []byte(text), mode))
}

func (c *cluster) tell(name string) {
	const most = 6000
	text, err := os.ReadFile(c.path(name))
	if err != nil {
		c.t.Log(err)
	}
	c.t.Logf("%s: %s", name, text[max(0, len(text)-most):])
}

func (c *cluster) run(name string, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(c.t.Context(), 30*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir, cmd.Env = c.dir, c.env
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		err = fmt.Errorf("%s: %w: %s", commandLine(append([]string{name}, args...)), err, stderr.Bytes())
	}
	return string(out), err
}

func (c *cluster) must(name string, args ...string) string {
	c.t.Helper()
	out, err := c.run(name, args...)
	c.check(err)
	return out
}

func (c *cluster) within(most time.Duration, what string, is func() bool) {
	c.t.Helper()
	for until := time.Now().Add(most); !is(); time.Sleep(100 * time.Millisecond) {
		if time.Now().After(until) {
			jobs, _ := c.run("squeue")
			nodes, _ := c.run("sinfo", "--Node", "--long")
			c.t.Fatalf("waited %v for %s\n%s\n%s", most, what, jobs, nodes)
		}
	}
}

// processes returns this cluster's processes on a node: the daemon, the scripts and their children. variables
// restricts them by environment.
func (c *cluster) processes(node string, variables ...string) []int {
	c.t.Helper()
	all, err := filepath.Glob("/proc/[0-9]*/environ")
	c.check(err)
	var pids []int
	for _, path := range all {
		env, err := os.ReadFile(path)
		if err != nil {
			continue // it has ended
		}
		has := true
		for _, v := range append(variables, "SLURM_CONF="+c.path("slurm.conf"), "SLURMD_NODENAME="+node) {
			has = has && bytes.Contains(append([]byte{0}, env...), []byte("\x00"+v+"\x00"))
		}
		if pid, err := strconv.Atoi(strings.Split(path, "/")[2]); has && err == nil {
			pids = append(pids, pid)
		}
	}
	return pids
}

// powerOff kills all processes of a node at once and blocks its daemon until powerOn.
func (c *cluster) powerOff(node string) {
	c.t.Helper()
	c.write("off-"+node, "", 0o644)
	pids := c.processes(node)
	// slurmstepd has overwritten its environment; it would report the script's end to the controller.
	for _, pid := range pids {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
		if err != nil {
			continue
		}
		_, after, _ := strings.Cut(string(stat), "\nPPid:\t")
		line, _, _ := strings.Cut(after, "\n")
		parent, err := strconv.Atoi(line)
		c.check(err)
		if name, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", parent)); err == nil && string(name) == "slurmstepd\n" {
			pids = append([]int{parent}, pids...)
		}
	}
	for _, pid := range pids {
		_ = syscall.Kill(pid, syscall.SIGKILL) // some have ended with another
	}
}

func (c *cluster) powerOn(node string) {
	c.t.Helper()
	c.check(os.Remove(c.path("off-" + node)))
}
