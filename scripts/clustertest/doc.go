// Package clustertest checks the files of scripts/kubernetes and examples/prometheus with the code of Kubernetes, kustomize and
// Prometheus themselves.
//
// It is a module of its own, so that go.mod of gemmaudit lists only what the product and its other tests use.
// `make test-cluster` runs it.
package clustertest
