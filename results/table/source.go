package table

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// flat is a table in the form in which generated source holds it: arrays that
// refer to each other by index.
type flat struct {
	firsts    []int // leading parts of all splits, end to end
	actions   []flatAction
	intervals []flatInterval
	series    []flatSeries
}

// flatAction is one of the different actions of a table; number 0 is direct.
type flatAction struct {
	Action
	first int // index into firsts
}

type flatInterval struct{ from, to, action int }

// flatSeries has the intervals [begin, end).
type flatSeries struct {
	*Series
	action, begin, end int
}

func (t *Table) flatten() *flat {
	f := &flat{}
	number := map[string]int{}
	intern := func(a Action) int {
		a.Kind = a.kind()
		key := fmt.Sprint(a.Kind, a.First, a.PadTo, a.Pad, a.Algorithm, a.Kernel)
		if i, ok := number[key]; ok {
			return i
		}
		number[key] = len(f.actions)
		f.actions = append(f.actions, flatAction{a, len(f.firsts)})
		f.firsts = append(f.firsts, a.First...)
		return number[key]
	}
	intern(Action{Kind: Direct})
	for i := range t.Series {
		s := flatSeries{Series: &t.Series[i], action: intern(t.Series[i].Default), begin: len(f.intervals)}
		for _, iv := range s.Intervals {
			f.intervals = append(f.intervals, flatInterval{iv.From, iv.To, intern(iv.Action)})
		}
		s.end = len(f.intervals)
		f.series = append(f.series, s)
	}
	return f
}

// Conditions lists what the table was made by and measured on, in words and in a fixed order, without
// what is unknown.
func (t *Table) Conditions() [][2]string {
	v := &t.Validators
	out := [][2]string{
		{"schema", t.Schema}, {"created", t.Created}, {"gemmaudit", v.Gemmaudit},
		{"device", v.Device}, {"driver", v.Driver},
	}
	for _, name := range slices.Sorted(maps.Keys(v.Libraries)) {
		out = append(out, [2]string{"library " + name, v.Libraries[name]})
	}
	out = append(out, [][2]string{
		{"kernel", v.Kernel}, {"regime", v.Regime}, {"clock_policy", v.ClockPolicy},
		{"arch", v.Arch}, {"cpu_model", v.CPUModel},
		{"features", strings.Join(slices.Sorted(slices.Values(v.Features)), " ")},
	}...)
	if v.Cores > 0 {
		out = append(out, [2]string{"cores", strconv.Itoa(v.Cores)})
	}
	if v.Threads > 0 {
		out = append(out, [2]string{"threads", strconv.Itoa(v.Threads)})
	}
	return slices.DeleteFunc(out, func(p [2]string) bool { return p[1] == "" })
}

// describe words an action for a comment.
func (a Action) describe() string {
	switch a.kind() {
	case Split:
		return "split " + join(a.First, "+") + "+rest"
	case Pad:
		return "pad to " + strconv.Itoa(a.PadTo) + " " + string(a.Pad)
	case Kernel:
		return "kernel " + strconv.QuoteToASCII(a.Kernel)
	case Algorithm:
		return fmt.Sprintf("algorithm %d of %s", a.Algorithm.ID, strconv.QuoteToASCII(a.Kernel))
	}
	return "direct"
}
