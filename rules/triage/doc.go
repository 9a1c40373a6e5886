// Package triage sums up the time that a recorded workload loses.
package triage
