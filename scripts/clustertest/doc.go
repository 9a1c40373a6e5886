// Package clustertest checks the files of scripts/kubernetes and examples/prometheus with the code of
// Kubernetes, kustomize and Prometheus.
//
// It is a separate module, which keeps these dependencies out of gemmaudit's go.mod. `make test-cluster` runs
// it.
package clustertest
