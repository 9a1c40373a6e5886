package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/gemmaudit/gemmaudit/results"
)

func fleetScripts(t *testing.T) []string {
	t.Helper()
	var all []string
	for _, pattern := range []string{"fleet/*.sh", "slurm/*.sh", "slurm/*.sbatch", "slurm/*.env", "kubernetes/*.sh", "gpu/fleet.sh"} {
		found, err := filepath.Glob("../../scripts/" + pattern)
		if err != nil || len(found) == 0 {
			t.Fatalf("no %s: %v", pattern, err)
		}
		all = append(all, found...)
	}
	return all
}

// Scripts that run as root on each node must be safe from word splitting.
func TestFleetScriptsPassShellcheck(t *testing.T) {
	if _, err := exec.LookPath("shellcheck"); err != nil {
		t.Skip("shellcheck is not installed: the scripts of a fleet are not looked at")
	}
	for _, script := range fleetScripts(t) {
		// Sourced files belong to others, and commas separate values in flags.
		args := []string{"--severity=info", "--exclude=SC1091,SC2054", "--shell=bash", script}
		if strings.HasSuffix(script, ".env") { // other scripts read its variables
			args = append(args, "--exclude=SC2034")
		}
		if out, err := exec.Command("shellcheck", args...).CombinedOutput(); err != nil {
			t.Errorf("%v\n%s", err, out)
		}
	}
}

// podTemplate has the fields of a Kubernetes Job used here; scripts/kubernetes checks all of it against the
// API's types.
type podTemplate struct {
	Spec struct {
		Template struct {
			Spec struct {
				Containers []struct {
					Command, Args []string
					Env           []struct{ Name, Value string }
					VolumeMounts  []struct {
						MountPath string `yaml:"mountPath"`
					} `yaml:"volumeMounts"`
				}
			}
		}
	}
}

// start runs a pod's container like a kubelet: with variables expanded and each mount in its own folder below
// dir. For the read-only root, only the mounts may be written below dir.
func (p *podTemplate) start(t *testing.T, dir string, config map[string]string) *exec.Cmd {
	t.Helper()
	c := p.Spec.Template.Spec.Containers[0]
	put := regexp.MustCompile(`\$\(([A-Z_]+)\)`)
	variables := map[string]string{}
	for name, value := range config {
		variables[name] = value
	}
	in := func(text string) string {
		text = put.ReplaceAllStringFunc(text, func(v string) string {
			value, ok := variables[put.FindStringSubmatch(v)[1]]
			if !ok {
				t.Errorf("%s is not set in %q", v, text)
			}
			return value
		})
		for _, m := range c.VolumeMounts {
			if text == m.MountPath || strings.HasPrefix(text, m.MountPath+"/") {
				return dir + text
			}
		}
		return text
	}
	for _, m := range c.VolumeMounts {
		if err := os.MkdirAll(dir+m.MountPath, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, e := range c.Env {
		if e.Value != "" { // otherwise it comes from the pod
			variables[e.Name] = in(e.Value)
		}
	}
	cmd := exec.Command(filepath.Join("../../scripts/fleet", filepath.Base(c.Command[0])))
	for _, a := range c.Args {
		cmd.Args = append(cmd.Args, in(a))
	}
	cmd.Env = os.Environ()
	for name, value := range variables {
		cmd.Env = append(cmd.Env, name+"="+value)
	}
	return cmd
}

// Runs the commands of scripts/kubernetes' Jobs as their pods do.
func TestKubernetesEntryPoints(t *testing.T) {
	read := func(name string) *podTemplate {
		text, err := os.ReadFile("../../scripts/kubernetes/base/" + name)
		if err != nil {
			t.Fatal(err)
		}
		var p podTemplate
		if err := yaml.Unmarshal(text, &p); err != nil || len(p.Spec.Template.Spec.Containers) != 1 {
			t.Fatalf("%s: %v: %+v", name, err, p)
		}
		return &p
	}
	program, err := exec.LookPath("gemmaudit-sim")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	config := map[string]string{"NIGHT": "2026-01-31", "DEVICE": "sim", "PRESET": "quick", "DEADLINE": "1m", "NODES": "3", "WAIT": "0",
		"GEMMAUDIT": program}
	sweep := read("sweep.yaml")
	for index, node := range []string{"gpu-0", "gpu-1.rack"} {
		config["JOB_COMPLETION_INDEX"], config["FLEET_NODE"] = []string{"0", "1"}[index], node
		// Some controllers set it too; a sweep that respects it would measure only part of its plan.
		config["JOB_COMPLETIONS"] = "3"
		cmd := sweep.start(t, dir, config)
		// a plan that takes no time
		cmd.Args = append(cmd.Args, "--shape=n64k64", "--batch=1:4", "--dtype=fp32", "--kernel=flat", "--rounds=7")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
	}
	var plans []string
	for index, node := range []string{"gpu-0", "gpu-1.rack"} {
		r, err := results.Open(filepath.Join(dir, "fleet/2026-01-31/runs", []string{"0.db", "1.db"}[index]))
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		if labels := r.Meta().Labels; labels["node"] != node || labels["night"] != "2026-01-31" {
			t.Errorf("labels of %s are %v", node, labels)
		}
		plans = append(plans, string(r.Meta().Plan))
	}
	if slices.Sort(plans); plans[0] != plans[1] {
		t.Errorf("the nodes measured different plans: %s and %s", plans[0], plans[1])
	}
	if left, err := filepath.Glob(dir + "/scratch/*/*"); err != nil || len(left) > 0 {
		t.Errorf("%s is left on a node, %v", left, err)
	}
}
