// Package errorrates prints how often verdicts are wrong on simulated machines.
package errorrates
