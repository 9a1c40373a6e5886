package clustertest

import (
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// The API server refuses the first requests of the check's entry point.
func TestCondition(t *testing.T) {
	for _, tt := range []struct {
		name    string
		code    int
		reason  string
		status  corev1.ConditionStatus
		word    string
		message string
	}{
		{"fit", 0, "like 511 others", corev1.ConditionFalse, "LikeItsPeers", "like 511 others"},
		{"slow", 1, "3.1 % slower \"at\" \\ the\tclock ü\nsecond line", corev1.ConditionTrue, "SlowerThanItsPeers",
			"3.1 % slower  at    the clock"},
		{"nothing to say", 3, "", corev1.ConditionUnknown, "NoVerdict", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			patches := make(chan patch, 10)
			node, lines := check(t, tt.code, tt.reason, patches)
			status, label := <-patches, <-patches
			if status.path != "/api/v1/nodes/gpu-7.rack/status" || label.path != "/api/v1/nodes/gpu-7.rack" {
				t.Errorf("%s and %s were patched", status.path, label.path)
			}
			for _, p := range []patch{status, label} {
				if p.method != http.MethodPatch || p.kind != "application/strategic-merge-patch+json" || p.token != "Bearer secret" {
					t.Errorf("a request is %+v", p)
				}
			}
			object := decode(t)
			conditions := object(asNode(status.body)).(*corev1.Node).Status.Conditions
			if len(conditions) != 1 {
				t.Fatalf("conditions are %+v", conditions)
			}
			c := conditions[0]
			if c.Type != "GemmsSlow" || c.Status != tt.status || c.Reason != tt.word || !strings.HasPrefix(c.Message, tt.message) ||
				strings.ContainsAny(c.Message, "\n\"\\") {
				t.Errorf("the condition is %+v", c)
			}
			if age := time.Since(c.LastHeartbeatTime.Time); age < -time.Minute || age > time.Hour ||
				c.LastTransitionTime != c.LastHeartbeatTime {
				t.Errorf("its times are %v and %v", c.LastHeartbeatTime, c.LastTransitionTime)
			}
			if labels := object(asNode(label.body)).(*corev1.Node).Labels; len(labels) != 1 || labels["gemmaudit/check"] != "done" {
				t.Errorf("labels are set to %v", labels)
			}
			if err := node.Process.Signal(syscall.SIGTERM); err != nil {
				t.Fatal(err)
			}
			if err := node.Wait(); err != nil {
				t.Errorf("removed, it ends with %v", err)
			}
			given, err := os.ReadFile(lines)
			if err != nil || string(given) != "check -q --reason --device=cpu --baseline=/fleet/base line.json\n" {
				t.Errorf("gemmaudit was given %q, %v", given, err)
			}
		})
	}
}

// asNode applies a patch to an empty node.
func asNode(body string) []byte {
	return []byte(`{"apiVersion":"v1","kind":"Node",` + strings.TrimPrefix(body, "{"))
}

type patch struct{ method, path, kind, token, body string }

// check starts condition.sh with a gemmaudit of given exit code and reason, and returns the file of its
// arguments.
func check(t *testing.T, code int, reason string, patches chan<- patch) (*exec.Cmd, string) {
	t.Helper()
	dir := t.TempDir()
	write := func(name, text string, mode os.FileMode) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
		return path
	}
	refused := false
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !refused {
			refused = true
			http.Error(w, "not yet", http.StatusServiceUnavailable)
			return
		}
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		patches <- patch{r.Method, r.URL.Path, r.Header.Get("Content-Type"), r.Header.Get("Authorization"), string(body)}
	}))
	t.Cleanup(server.Close)
	at, err := url.Parse(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	write("token", "secret", 0o600)
	write("ca.crt", string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})), 0o644)
	write("reason", reason, 0o644)
	given := filepath.Join(dir, "given")
	program := write("gemmaudit",
		fmt.Sprintf("#!/bin/sh\necho \"$*\" >'%s'\ncat '%s'\nexit %d\n", given, filepath.Join(dir, "reason"), code), 0o755)
	cmd := exec.CommandContext(t.Context(), "../kubernetes/condition.sh", "--device=cpu", "--baseline=/fleet/base line.json")
	cmd.Env = append(os.Environ(), "NODE=gpu-7.rack", "KUBERNETES_SERVICE_HOST="+at.Hostname(), "KUBERNETES_SERVICE_PORT="+at.Port(),
		"ACCOUNT="+dir,
		"GEMMAUDIT="+program, "RETRY=0.1")
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }) // ends its sleeping child processes
	return cmd, given
}
