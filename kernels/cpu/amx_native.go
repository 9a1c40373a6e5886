//go:build !amxemu

package cpu

// amxEmulated says that tiles are a model in software, by the build tag amxemu.
const amxEmulated = false
