//go:build !amxemu

package cpu

// amxEmulated is true if tiles are emulated in software (build tag amxemu).
const amxEmulated = false
