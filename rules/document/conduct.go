package document

import (
	"math/big"
	"time"

	"aliquot/rules/source"
)

// CoolDown is a rule's answer to clients that ask again before the time they were told. After so
// many early denials in a row the client is held back, each time for twice as long. The zero value
// holds no client back.
type CoolDown struct {
	// After is the necessary number of early denials, at least 1; 0 means no cool-down.
	After int64
	// Most is the longest time of one cool-down.
	Most time.Duration
}

// AutoBlock is how a rule blocks a client that is denied again and again, in one region and for a
// limited time. The zero value blocks no client.
type AutoBlock struct {
	// After is the necessary number of denials within Within, at least 1; 0 means no block.
	After  int64
	Within time.Duration
	// For is how long a block lasts.
	For time.Duration
}

// Defaults of a cool_down or an auto_block, and bounds of their values. A second is the least that
// a person would notice, and after a day or a month an operator should have looked.
const (
	defaultCoolAfter   = 100
	defaultCoolMost    = time.Minute
	maxCoolDown        = 24 * time.Hour
	defaultBlockAfter  = 10_000
	defaultBlockWithin = time.Minute
	maxBlockWithin     = 24 * time.Hour
	defaultBlockFor    = 10 * time.Minute
	maxBlockFor        = 30 * 24 * time.Hour
)

// coolDown reads {after, most}, or true for the defaults, or false for none.
func (d *decoder) coolDown(f *source.Field) *CoolDown {
	c := CoolDown{After: defaultCoolAfter, Most: defaultCoolMost}
	on := d.switched(f, source.Schema{
		"after": func(f *source.Field) { c.After = d.denials(f) },
		"most":  func(f *source.Field) { c.Most = d.lasting(f, maxCoolDown) },
	})
	if !on {
		return &CoolDown{}
	}
	return &c
}

// autoBlock reads {after, within, for}, or true for the defaults, or false for none.
func (d *decoder) autoBlock(f *source.Field) *AutoBlock {
	b := AutoBlock{After: defaultBlockAfter, Within: defaultBlockWithin, For: defaultBlockFor}
	on := d.switched(f, source.Schema{
		"after":  func(f *source.Field) { b.After = d.denials(f) },
		"within": func(f *source.Field) { b.Within = d.lasting(f, maxBlockWithin) },
		"for":    func(f *source.Field) { b.For = d.lasting(f, maxBlockFor) },
	})
	if !on {
		return &AutoBlock{}
	}
	return &b
}

// switched reads a mapping, or true or false in its place, and reports whether it is on.
func (d *decoder) switched(f *source.Field, known source.Schema) (on bool) {
	if f.Value.Kind == source.KindMapping {
		return d.Mapping(f.Value, f.Name, known)
	}
	if f.Value.Kind != source.KindBool {
		d.Add(f.Value.At, "%s must be a mapping, or true or false, found %s; write it like %s: {after: 100}", f.Name, f.Value.Kind, f.Name)
		return false
	}
	return *d.Bool(f)
}

// denials reads a number of denials.
func (d *decoder) denials(f *source.Field) int64 {
	v := d.number(f)
	if v == nil {
		return 0
	}
	if !v.IsInt() || v.Sign() <= 0 || v.Cmp(new(big.Rat).SetInt64(MaxCapacity)) > 0 {
		d.Add(f.Value.At, "%s must be a whole number of denials from 1 to %d; write it like 100", f.Name, MaxCapacity)
		return 0
	}
	return v.Num().Int64()
}

// lasting reads a duration from one second to most.
func (d *decoder) lasting(f *source.Field, most time.Duration) time.Duration {
	v, ok := d.duration(f)
	if ok && (v < time.Second || v > most) {
		d.Add(f.Value.At, "%s must be from 1s to %dh; write it like 60s", f.Name, int64(most/time.Hour))
	}
	return v
}
