package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gemmaudit/gemmaudit/results"
)

// TestSlurm runs the jobs of scripts/slurm on a real Slurm of four nodes.
func TestSlurm(t *testing.T) {
	if testing.Short() {
		t.Skip("a cluster is started, which takes a minute")
	}
	program, err := exec.LookPath("gemmaudit")
	if err != nil {
		t.Fatal(err)
	}
	c := startSlurm(t)
	// Each node needs its own host name, though all are this machine.
	c.write("node", `#!/bin/bash
exec unshare --uts bash -c 'echo "$SLURMD_NODENAME" >/proc/sys/kernel/hostname; exec "$@"' node '`+program+`' "$@"
`, 0o755)
	t.Run("night", func(t *testing.T) { c.on(t).disturbedNight() })
	t.Run("competitor", func(t *testing.T) { c.on(t).nightBesideCompetitor() })
	t.Run("prolog", func(t *testing.T) { c.on(t).prologDrains() })
}

func (c *cluster) on(t *testing.T) *cluster {
	part := *c
	part.t = t
	return &part
}

type night struct {
	*cluster
	folder  string
	rounds  int
	perNode int
}

// cases is the number of cases in a night's plan. slurmLimit bounds steps that take some ten seconds on an
// idle machine.
const (
	cases      = 4
	slurmLimit = 4 * time.Minute
)

// submit submits a night in a folder with a space in its path. settings are lines of night.env.
func (c *cluster) submit(name, program string, perNode, rounds int, settings ...string) night {
	c.t.Helper()
	root := c.path("shared storage")
	lines := append([]string{
		"ROOT='" + root + "'",
		"GEMMAUDIT='" + program + "'",
		fmt.Sprintf("SWEEP=(--device cpu --shape n64k64 --batch 1:%d --dtype fp32 --kernel naive --regime hot --threads 1 --block 10ms "+
			"--rounds %d --rounds-for all)", cases, rounds),
		fmt.Sprintf("PROCESSES=%d", perNode),
		`FLEET_LOCAL="` + c.dir + `/local/${SLURMD_NODENAME:-none}"`,
		`LABELS=(rack=7 'owner=a "b" $(touch expanded) \ c')`,
		"SBATCH=(--time=5 --exclusive)", "COLLECT_SBATCH=(--time=5)", "UNTIL='20 minutes'", "GRACE=10",
	}, settings...)
	c.write("settings", strings.Join(lines, "\n")+"\n", 0o644)
	submit, err := filepath.Abs("../../scripts/slurm/submit.sh")
	c.check(err)
	c.must(submit, c.path("settings"), name)
	return night{c, filepath.Join(root, name), rounds, perNode}
}

// disturbedNight disturbs four tasks while they measure: one is killed, one requeued, one runs out of time,
// and one node loses power. Each task's run must still be complete and keep its earlier samples.
func (c *cluster) disturbedNight() {
	t := c.t
	n := c.submit("night-1", c.path("node"), 2, 40)
	before := map[string][]results.Sample{}
	n.within(slurmLimit, "tasks to measure on each node", func() bool {
		for _, node := range slurmNodes {
			run := node + "-1"
			samples := n.measured(node, run)
			if before[run] != nil || len(samples) < 3 {
				continue
			}
			before[run] = samples
			switch node {
			case "n1": // ends the sweep and the scripts around it
				for _, pid := range n.processes(node, "FLEET_RUN="+run) {
					_ = syscall.Kill(pid, syscall.SIGKILL)
				}
			case "n2":
				c.must("scontrol", "requeue", n.job(node))
			case "n3":
				n.powerOff(node)
				c.must("scontrol", "update", "NodeName="+node, "State=DOWN", "Reason=no power")
				n.powerOn(node)
			case "n4": // as Slurm does before a task's time limit
				c.must("scancel", "--batch", "--signal=USR1", n.job(node))
			}
		}
		return len(before) == len(slurmNodes)
	})
	n.judged()
	n.whole(before)
	n.namesNodes()
	// Slurm, or the tasks themselves, restarted the others.
	if again, err := os.ReadFile(filepath.Join(n.folder, "tasks-2")); err != nil || string(again) != "n1-1 n1\n" {
		t.Errorf("the tasks that were submitted anew are %q, %v: expected the one that was killed", again, err)
	}
}

// nightBesideCompetitor runs tasks one after another, all pinned to one core, with other load during the
// second node's task.
func (c *cluster) nightBesideCompetitor() {
	c.write("pinned", `#!/bin/bash
if [[ $FLEET_NODE == n2 && $1 == sweep ]]; then
  taskset -c 0 bash -c 'while :; do :; done' &
  trap 'kill $!' EXIT
fi
taskset -c 0 '`+c.path("node")+`' "$@"
`, 0o755)
	n := c.submit("night-2", c.path("pinned"), 1, 8, "AT_ONCE=1")
	n.judged()
	n.whole(nil)
	n.namesNodes()
}

func (n night) job(node string) string {
	n.t.Helper()
	return strings.TrimSpace(n.must("squeue", "--noheader", "--nodelist="+node, "--states=RUNNING", "--format=%i"))
}

// measured returns the samples of a node's task so far, nil before the first.
func (n night) measured(node, run string) []results.Sample {
	found, err := filepath.Glob(n.path("local/" + node + "/*/" + run + ".db"))
	n.check(err)
	if len(found) == 0 {
		return nil
	}
	r, err := results.Open(found[0])
	if err != nil {
		return nil // its writer is just starting
	}
	defer r.Close()
	samples, err := r.Samples(results.PhaseSweep)
	n.check(err)
	return samples
}

// judged waits for the job that judges the night's runs and requires all of them.
func (n night) judged() {
	n.t.Helper()
	n.t.Cleanup(func() {
		if logs, _ := filepath.Glob(filepath.Join(n.folder, "logs", "*")); n.t.Failed() {
			for _, log := range logs {
				n.tell("shared storage/" + filepath.Base(n.folder) + "/logs/" + filepath.Base(log))
			}
		}
	})
	n.within(slurmLimit, "the night to be judged", func() bool {
		missing, err := os.ReadFile(filepath.Join(n.folder, "missing"))
		jobs, queued := n.run("squeue", "--noheader")
		return err == nil && len(missing) == 0 && queued == nil && jobs == ""
	})
}

// whole requires each task's run exactly once, with all samples of its plan, including those from before, and
// no other files.
func (n night) whole(before map[string][]results.Sample) {
	t := n.t
	t.Helper()
	var want []string
	for _, node := range slurmNodes {
		for i := range n.perNode {
			want = append(want, fmt.Sprintf("%s-%d", node, i+1))
		}
	}
	ids := map[string]string{}
	for _, run := range want {
		r, err := results.Open(filepath.Join(n.folder, "runs", run+".db"))
		if err != nil {
			t.Error(err)
			continue
		}
		defer r.Close()
		if len(r.Warnings()) > 0 {
			t.Errorf("%s: %s", run, r.Warnings())
		}
		samples, err := r.Samples(results.PhaseSweep)
		n.check(err)
		if len(samples) != cases*n.rounds {
			t.Errorf("%s has %d samples, expected %d", run, len(samples), cases*n.rounds)
		}
		if err := holds(samples, before[run]); err != nil {
			t.Errorf("%s: %v", run, err)
		}
		if other := ids[r.ID()]; other != "" {
			t.Errorf("%s is the same run as %s", run, other)
		}
		ids[r.ID()] = run
		labels := r.Meta().Labels
		node, _, _ := strings.Cut(run, "-")
		if labels["node"] != node || labels["rack"] != "7" || labels["owner"] != `a "b" $(touch expanded) \ c` ||
			labels["partition"] != "all" || labels["task"] == "" {
			t.Errorf("%s has labels %v", run, labels)
		}
	}
	var there []string
	for _, folder := range []string{n.folder, n.path("local")} {
		n.check(filepath.WalkDir(folder, func(path string, e os.DirEntry, err error) error {
			if name := e.Name(); err == nil && !e.IsDir() && (strings.Contains(name, ".db") || strings.HasPrefix(name, ".")) {
				there = append(there, strings.TrimSuffix(name, ".db"))
			}
			return err
		}))
	}
	slices.Sort(there)
	if !slices.Equal(there, want) {
		t.Errorf("there is %s, expected the runs of %s and nothing else", there, want)
	}
	if _, err := os.Stat(n.path("expanded")); err == nil {
		t.Error("a label was run as a command")
	}
}

// namesNodes requires a verdict on each node's card. The verdict itself does not matter, because the machine
// is shared.
func (n night) namesNodes() {
	t := n.t
	t.Helper()
	text, err := os.ReadFile(filepath.Join(n.folder, "fleet", "fleet.json"))
	n.check(err)
	var fleet struct {
		Cards []struct {
			Host, Verdict string
			Runs          []string
		}
	}
	n.check(json.Unmarshal(text, &fleet))
	var hosts []string
	for _, card := range fleet.Cards {
		hosts = append(hosts, card.Host)
		if card.Verdict == "" || len(card.Runs) != n.perNode {
			t.Errorf("%s is %q by %d runs, expected %d", card.Host, card.Verdict, len(card.Runs), n.perNode)
		}
	}
	if slices.Sort(hosts); !slices.Equal(hosts, slurmNodes) {
		t.Errorf("the hosts that were judged are %s", hosts)
	}
	for _, name := range []string{"fleet.txt", "fleet/index.html"} {
		if text, err := os.ReadFile(filepath.Join(n.folder, name)); err != nil || !strings.Contains(string(text), "n4") {
			t.Errorf("%s does not name the nodes: %v", name, err)
		}
	}
}

// prologDrains starts jobs on a node with a slow card, on a fit node, and on one whose check reaches no
// verdict.
func (c *cluster) prologDrains() {
	t := c.t
	const known = "clock:9:1800"
	baseline := fleetOf(t, c.dir, 3, known, "--device", "cuda:all", "--shape", "n256k256,n512k256", "--batch", "8:128:8", "--dtype", "fp32",
		"--rounds", "7")
	program, err := exec.LookPath("gemmaudit-cards")
	c.check(err)
	c.write("cards", `#!/bin/bash
echo "$SLURMD_NODENAME" >>'`+c.path("checked")+`'
[[ $SLURMD_NODENAME != n4 ]] || set -- "$@" --baseline nothing.json
CARDS="`+known+`$([[ $SLURMD_NODENAME != n3 ]] || echo ' slow:1:1.2')" exec '`+program+`' "$@"
`, 0o755)
	c.write("check.env",
		strings.Join([]string{"GEMMAUDIT='" + c.path("cards") + "'", "BASELINE='" + baseline + "'", "CHECK=(--device cuda:all)",
			"STATE='" + c.dir + "'/checks/$SLURMD_NODENAME"}, "\n"), 0o600)
	prolog, err := filepath.Abs("../../scripts/slurm/prolog.sh")
	c.check(err)
	c.write("check", "#!/bin/bash\nGEMMAUDIT_CHECK_ENV='"+c.path("check.env")+"' exec '"+prolog+"'\n", 0o755)
	defer os.Remove(c.path("check"))
	begin := func(node string) string {
		return strings.TrimSpace(c.must("sbatch", "--parsable", "--nodelist="+node, "--output=/dev/null",
			"--wrap=touch '"+c.path("began-"+node)+"'"))
	}
	began := func(node string) bool {
		_, err := os.Stat(c.path("began-" + node))
		return err == nil
	}
	refused := begin("n3")
	for _, node := range []string{"n1", "n4"} {
		begin(node)
		c.within(slurmLimit, "a job on "+node, func() bool { return began(node) })
	}
	var state string
	c.within(slurmLimit, "n3 to drain", func() bool {
		state = c.must("scontrol", "show", "node", "n3")
		return strings.Contains(state, "DRAIN")
	})
	if !strings.Contains(state, "Reason=gemmaudit: ") || !strings.Contains(state, "is not fit: cuda:1 ") || began("n3") {
		t.Errorf("n3 is drained, a job began there: %v:\n%s", began("n3"), state)
	}
	c.must("scancel", refused)
	// A node that was fit a few minutes ago is not checked again, and a settings file that others can write
	// is ignored.
	c.check(os.Remove(c.path("began-n1")))
	begin("n1")
	c.within(slurmLimit, "another job on n1", func() bool { return began("n1") })
	c.check(os.Chmod(c.path("check.env"), 0o666))
	begin("n2")
	c.within(slurmLimit, "a job on n2", func() bool { return began("n2") })
	checked, err := os.ReadFile(c.path("checked"))
	c.check(err)
	if n := strings.Count(string(checked), "n1"); n != 1 || strings.Contains(string(checked), "n2") {
		t.Errorf("the nodes that were checked are %q, expected n1 once and n2 never", checked)
	}
	for _, node := range []string{"n1", "n2", "n4"} {
		if state := c.must("scontrol", "show", "node", node); strings.Contains(state, "DRAIN") {
			t.Errorf("%s is drained:\n%s", node, state)
		}
	}
}
