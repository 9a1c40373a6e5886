package clustertest

import (
	"os"
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
)

// decode is an API server's strict decoder: it rejects unknown fields, including other spellings in case.
func decode(t *testing.T) func(text []byte) runtime.Object {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, batchv1.AddToScheme, appsv1.AddToScheme, rbacv1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	decoder := serializer.NewCodecFactory(scheme, serializer.EnableStrict).UniversalDeserializer()
	return func(text []byte) runtime.Object {
		t.Helper()
		object, _, err := decoder.Decode(text, nil, nil)
		if err != nil {
			t.Fatalf("%v\n%s", err, text)
		}
		return object
	}
}

// overlay holds the objects of a folder.
type overlay struct {
	configs  map[string]map[string]string
	jobs     map[string]*batchv1.Job
	check    *appsv1.DaemonSet
	role     *rbacv1.ClusterRole
	binding  *rbacv1.ClusterRoleBinding
	claims   map[string]bool
	accounts map[string]bool
}

// build builds a folder as kubectl apply -k does.
func build(t *testing.T, folder string) overlay {
	t.Helper()
	resources, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), folder)
	if err != nil {
		t.Fatal(err)
	}
	o := overlay{configs: map[string]map[string]string{}, jobs: map[string]*batchv1.Job{}, claims: map[string]bool{},
		accounts: map[string]bool{}}
	object := decode(t)
	for _, r := range resources.Resources() {
		text, err := r.AsYAML()
		if err != nil {
			t.Fatal(err)
		}
		switch x := object(text).(type) {
		case *corev1.ConfigMap:
			o.configs[x.Name] = x.Data
		case *corev1.PersistentVolumeClaim:
			o.claims[x.Name] = slices.Contains(x.Spec.AccessModes, corev1.ReadWriteMany)
		case *corev1.ServiceAccount:
			o.accounts[x.Namespace+"/"+x.Name] = true
		case *batchv1.Job:
			o.jobs[x.Name] = x
		case *appsv1.DaemonSet:
			o.check = x
		case *rbacv1.ClusterRole:
			o.role = x
		case *rbacv1.ClusterRoleBinding:
			o.binding = x
		default:
			t.Errorf("%s: %T is not expected", folder, x)
		}
	}
	if len(o.jobs) != 2 || o.check == nil || o.role == nil || o.binding == nil {
		t.Fatalf("%s has %d jobs, a check %v", folder, len(o.jobs), o.check != nil)
	}
	return o
}

func TestOverlays(t *testing.T) {
	for _, tt := range []struct {
		name, device, cards string
		nodes               int32
	}{
		{"cpu", "cpu", "0", 2},
		{"nvidia", "cuda:all", "8", 16},
	} {
		t.Run(tt.name, func(t *testing.T) {
			o := build(t, "../kubernetes/overlays/"+tt.name)
			sweep, judge := o.jobs["gemmaudit-sweep"], o.jobs["gemmaudit-judge"]
			for name, pod := range map[string]corev1.PodSpec{"sweep": sweep.Spec.Template.Spec, "judge": judge.Spec.Template.Spec,
				"check": o.check.Spec.Template.Spec} {
				o.locked(t, name, pod)
				config := o.configs[pod.Containers[0].EnvFrom[0].ConfigMapRef.Name]
				if config["DEVICE"] != tt.device {
					t.Errorf("%s measures on %q, expected %s", name, config["DEVICE"], tt.device)
				}
				gpus := pod.Containers[0].Resources.Limits["nvidia.com/gpu"]
				if want := tt.cards; name != "judge" && gpus.String() != want || name == "judge" && !gpus.IsZero() {
					t.Errorf("%s asks for %v cards", name, &gpus)
				}
			}
			config := o.configs[sweep.Spec.Template.Spec.Containers[0].EnvFrom[0].ConfigMapRef.Name]
			if nodes := quantity(t, config["NODES"]); nodes != tt.nodes || *sweep.Spec.Completions != nodes ||
				*sweep.Spec.Parallelism != nodes {
				t.Errorf("%d runs are judged, and %d of %d swept at once", nodes, *sweep.Spec.Parallelism, *sweep.Spec.Completions)
			}
			checkSweep(t, sweep)
			o.checkRights(t)
			if o.check.Spec.Template.Spec.NodeSelector["gemmaudit/check"] != "wanted" {
				t.Error("every node is checked, for ever")
			}
		})
	}
}

// locked requires a pod without root rights that writes only to its volumes, and uses only existing names.
func (o overlay) locked(t *testing.T, name string, pod corev1.PodSpec) {
	t.Helper()
	s := pod.SecurityContext
	if len(pod.Containers) != 1 || len(pod.InitContainers) > 0 || pod.HostNetwork || pod.HostPID || pod.HostIPC {
		t.Fatalf("%s is not one container of its own", name)
	}
	if s == nil || !*s.RunAsNonRoot || *s.RunAsUser == 0 || s.SeccompProfile.Type != corev1.SeccompProfileTypeRuntimeDefault {
		t.Errorf("%s runs as %+v", name, s)
	}
	c := pod.Containers[0]
	if x := c.SecurityContext; x == nil || *x.AllowPrivilegeEscalation || !*x.ReadOnlyRootFilesystem ||
		!slices.Equal(x.Capabilities.Drop, []corev1.Capability{"ALL"}) ||
		len(x.Capabilities.Add) > 0 || x.Privileged != nil {
		t.Errorf("%s may do more than it needs: %+v", name, x)
	}
	if image, tag, _ := strings.Cut(c.Image, ":"); image != "registry.example/gemmaudit" || tag == "" || tag == "latest" {
		t.Errorf("%s is of the image %s, expected one with a tag", name, c.Image)
	}
	if c.Resources.Requests.Cpu().IsZero() || c.Resources.Limits.Memory().IsZero() {
		t.Errorf("%s has resources %+v", name, c.Resources)
	}
	config, there := o.configs[c.EnvFrom[0].ConfigMapRef.Name]
	if !there {
		t.Errorf("%s refers to the settings %s, of which there are %v", name, c.EnvFrom[0].ConfigMapRef.Name, o.configs)
	}
	var env []string
	for _, e := range c.Env {
		env = append(env, e.Name)
	}
	for key := range config {
		env = append(env, key)
	}
	for _, text := range append(slices.Clone(c.Args), values(c.Env)...) {
		for _, after := range strings.Split(text, "$(")[1:] {
			if key, _, _ := strings.Cut(after, ")"); !slices.Contains(env, key) {
				t.Errorf("%s: %q refers to a variable that is not set", name, text)
			}
		}
	}
	volumes := map[string]bool{}
	for _, v := range pod.Volumes {
		if v.EmptyDir == nil && (v.PersistentVolumeClaim == nil || !o.claims[v.PersistentVolumeClaim.ClaimName]) {
			t.Errorf("%s has a volume %+v", name, v)
		}
		volumes[v.Name] = true
	}
	for _, m := range c.VolumeMounts {
		if !volumes[m.Name] {
			t.Errorf("%s mounts %s, which there is not", name, m.Name)
		}
	}
	containerfile, err := os.ReadFile("../../Containerfile")
	if err != nil {
		t.Fatal(err)
	}
	if folder, program := path.Split(c.Command[0]); len(c.Command) != 1 || !strings.Contains(string(containerfile), "/"+program+" ") ||
		!strings.Contains(string(containerfile), " "+folder+"\n") {
		t.Errorf("%s runs %s, which the image does not have", name, c.Command)
	}
	token := pod.AutomountServiceAccountToken == nil || *pod.AutomountServiceAccountToken
	if token != (name == "check") {
		t.Errorf("%s can talk to the API server: %v", name, token)
	}
}

func values(env []corev1.EnvVar) []string {
	var out []string
	for _, e := range env {
		out = append(out, e.Value)
	}
	return out
}

func quantity(t *testing.T, text string) int32 {
	t.Helper()
	var n int32
	for _, r := range text {
		if r < '0' || r > '9' {
			t.Fatalf("%q is no number", text)
		}
		n = 10*n + r - '0'
	}
	return n
}

// checkSweep requires a Job with one node per index, in which a failed index does not affect others.
func checkSweep(t *testing.T, job *batchv1.Job) {
	t.Helper()
	s := job.Spec
	pod := s.Template.Spec
	if *s.CompletionMode != batchv1.IndexedCompletion || s.BackoffLimitPerIndex == nil || pod.RestartPolicy != corev1.RestartPolicyNever ||
		s.MaxFailedIndexes != nil {
		t.Errorf("the sweep is %+v", s)
	}
	apart := pod.Affinity.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution
	if len(apart) != 1 || apart[0].TopologyKey != "kubernetes.io/hostname" {
		t.Fatalf("pods are kept apart by %+v", apart)
	}
	for key, value := range apart[0].LabelSelector.MatchLabels {
		if s.Template.Labels[key] != value {
			t.Errorf("pods of %s=%s are kept apart, and those of the sweep have %v", key, value, s.Template.Labels)
		}
	}
	if *pod.TerminationGracePeriodSeconds < 60 {
		t.Errorf("%d s are left to end a block and hand over what was measured", *pod.TerminationGracePeriodSeconds)
	}
	if !slices.Contains(pod.Containers[0].Args, "--shard=none") {
		t.Error("a pod measures a part of the plan")
	}
}

// checkRights requires that the check may patch nodes and has no other permission.
func (o overlay) checkRights(t *testing.T) {
	t.Helper()
	want := []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"nodes", "nodes/status"}, Verbs: []string{"patch"}}}
	if diff := cmp.Diff(want, o.role.Rules); diff != "" {
		t.Errorf("rights of the check (-want +got):\n%s", diff)
	}
	account := o.check.Namespace + "/" + o.check.Spec.Template.Spec.ServiceAccountName
	if s := o.binding.Subjects; len(s) != 1 || s[0].Namespace+"/"+s[0].Name != account || !o.accounts[account] ||
		o.binding.RoleRef.Name != o.role.Name {
		t.Errorf("%+v is bound to %s, expected %s", s, o.binding.RoleRef.Name, account)
	}
}
