package table

import (
	"encoding/binary"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// flat is a table as generated source stores it: arrays that refer to each other by index.
type flat struct {
	firsts    []int // leading parts of all splits, concatenated
	actions   []flatAction
	intervals []flatInterval
	series    []flatSeries
}

// flatAction is one of a table's distinct actions; number 0 is direct.
type flatAction struct {
	*Action
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
	var key []byte
	intern := func(a *Action) int {
		key = a.appendKey(key[:0])
		if i, ok := number[string(key)]; ok {
			return i
		}
		i := len(f.actions)
		number[string(key)] = i
		f.actions = append(f.actions, flatAction{a, len(f.firsts)})
		f.firsts = append(f.firsts, a.First...)
		return i
	}
	intern(&Action{Kind: Direct})
	for i := range t.Series {
		f.intervals = slices.Grow(f.intervals, len(t.Series[i].Intervals))
		s := flatSeries{Series: &t.Series[i], action: intern(&t.Series[i].Default), begin: len(f.intervals)}
		for k := range s.Intervals {
			iv := &s.Intervals[k]
			f.intervals = append(f.intervals, flatInterval{iv.From, iv.To, intern(&iv.Action)})
		}
		s.end = len(f.intervals)
		f.series = append(f.series, s)
	}
	return f
}

// appendKey appends a unique key of the action: its fields with lengths where needed.
func (a *Action) appendKey(to []byte) []byte {
	for _, word := range []string{string(a.kind()), string(a.Pad), a.Kernel} {
		to = append(binary.AppendUvarint(to, uint64(len(word))), word...)
	}
	to = binary.AppendVarint(to, int64(a.PadTo))
	to = binary.AppendUvarint(to, uint64(len(a.First)))
	for _, n := range a.First {
		to = binary.AppendVarint(to, int64(n))
	}
	if a.Algorithm != (Attributes{}) {
		for _, n := range a.Algorithm.list() {
			to = binary.AppendVarint(to, int64(n))
		}
	}
	return to
}

// Conditions lists the table's tool and conditions as text in a fixed order, without unknown ones.
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
