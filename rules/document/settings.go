package document

import (
	"cmp"
	"math/big"
	"strings"
	"time"

	"aliquot/rules/source"
)

// Settings are what defaults, tiers and rules can all state. Zero means not stated.
type Settings struct {
	Params         Params
	Algorithm      string
	Mode           string
	unit           string
	Enforcement    string
	Placement      string
	BorrowWait     time.Duration
	OnRedisFailure string
	OnDataLoss     string
	Overrun        string
	RequestLimit   string
	LocalCache     *bool
	Shadow         *int32   // millionths of the keys
	Key            []string // nil if not stated, empty for []
	CoolDown       *CoolDown
	AutoBlock      *AutoBlock
	// Broken: params were refused or may be under a wrong name. A missing limit would only be a
	// consequence of that and is not reported.
	Broken bool

	// The places where this level states them; zero if it does not.
	modeAt, unitAt, borrowWaitAt, enforcementAt, overrunAt source.Position
}

// Over lays the settings of a nearer level over inherited ones.
func (s Settings) Over(inherited Settings) Settings {
	out := inherited
	out.Params = s.Params.Over(inherited.Params)
	out.Broken = s.Broken || inherited.Broken
	out.Algorithm = cmp.Or(s.Algorithm, inherited.Algorithm)
	out.Mode = cmp.Or(s.Mode, inherited.Mode)
	out.unit = cmp.Or(s.unit, inherited.unit)
	out.Enforcement = cmp.Or(s.Enforcement, inherited.Enforcement)
	out.Placement = cmp.Or(s.Placement, inherited.Placement)
	out.BorrowWait = cmp.Or(s.BorrowWait, inherited.BorrowWait)
	out.OnRedisFailure = cmp.Or(s.OnRedisFailure, inherited.OnRedisFailure)
	out.OnDataLoss = cmp.Or(s.OnDataLoss, inherited.OnDataLoss)
	out.Overrun = cmp.Or(s.Overrun, inherited.Overrun)
	out.RequestLimit = cmp.Or(s.RequestLimit, inherited.RequestLimit)
	out.LocalCache = cmp.Or(s.LocalCache, inherited.LocalCache)
	out.Shadow = cmp.Or(s.Shadow, inherited.Shadow)
	if s.Key != nil {
		out.Key = s.Key
	}
	if s.CoolDown != nil {
		out.CoolDown = s.CoolDown
	}
	if s.AutoBlock != nil {
		out.AutoBlock = s.AutoBlock
	}
	return out
}

// BuiltIn returns the settings that apply if the file states nothing.
func BuiltIn() Settings {
	yes, nobody := true, int32(0)
	return Settings{
		Algorithm:      TokenBucket,
		Mode:           ModeMeter,
		Enforcement:    Elastic,
		Placement:      Auto,
		BorrowWait:     AutoBorrowWait,
		OnRedisFailure: FailLocal,
		LocalCache:     &yes,
		Shadow:         &nobody,
		Key:            []string{APIKeyAttribute},
		CoolDown:       &CoolDown{},
		AutoBlock:      &AutoBlock{},
	}
}

// settingsOf reads a mapping that has only settings.
func (d *decoder) settingsOf(n *source.Node, what string) Settings {
	var s Settings
	if !d.Mapping(n, what, d.settingsSchema(&s)) {
		s.Broken = true
	}
	return s
}

// settingsSchema reads settings into s.
func (d *decoder) settingsSchema(s *Settings) source.Schema {
	return source.Schema{
		"params":           func(f *source.Field) { d.paramsOf(f, s) },
		"algorithm":        func(f *source.Field) { s.Algorithm = d.chooseOrBreak(f, s, Algorithms()) },
		"mode":             func(f *source.Field) { s.modeAt = f.At; s.Mode = d.Choose(f, leakyModes()) },
		"unit":             func(f *source.Field) { s.unitAt = f.At; s.unit = d.unit(f) },
		"enforcement":      func(f *source.Field) { s.enforcementAt = f.At; s.Enforcement = d.Choose(f, Enforcements()) },
		"placement":        func(f *source.Field) { s.Placement = d.chooseOrBreak(f, s, Placements()) },
		"borrow_wait":      func(f *source.Field) { s.borrowWaitAt = f.At; s.BorrowWait = d.borrowWait(f) },
		"on_redis_failure": func(f *source.Field) { s.OnRedisFailure = d.Choose(f, RedisFailures()) },
		"on_data_loss":     func(f *source.Field) { s.OnDataLoss = d.Choose(f, dataLosses()) },
		"overrun":          func(f *source.Field) { s.overrunAt = f.At; s.Overrun = d.Choose(f, overruns()) },
		"request_limit":    func(f *source.Field) { s.RequestLimit = d.Choose(f, requestLimits()) },
		"local_cache":      func(f *source.Field) { s.LocalCache = d.Bool(f) },
		"shadow":           func(f *source.Field) { s.Shadow = d.shadow(f) },
		"key":              func(f *source.Field) { s.Key = d.key(f) },
		"cool_down":        func(f *source.Field) { s.CoolDown = d.coolDown(f) },
		"auto_block":       func(f *source.Field) { s.AutoBlock = d.autoBlock(f) },
	}
}

// paramsOf reads params. broken is never reset, because fields come in any order.
func (d *decoder) paramsOf(f *source.Field, s *Settings) {
	before := d.Count()
	s.Params = d.params(f.Value, "params")
	s.Broken = s.Broken || d.Count() > before
}

// chooseOrBreak is choose for a setting that determines what other settings may state.
func (d *decoder) chooseOrBreak(f *source.Field, s *Settings, words []string) string {
	chosen := d.Choose(f, words)
	s.Broken = s.Broken || chosen == ""
	return chosen
}

// borrowWait reads how long a request may wait for its share to move.
func (d *decoder) borrowWait(f *source.Field) time.Duration {
	v, ok := d.duration(f)
	if ok && (v < minBorrowWait || v > maxBorrowWait) {
		d.Add(f.Value.At, "%s must be from 1ms to 8s; write it like 150ms", f.Name)
	}
	return v
}

// unit reads the name of the unit that a limit counts.
func (d *decoder) unit(f *source.Field) string {
	unit, ok := d.Text(f.Value, "unit", source.MaxNameChars)
	if ok && strings.ContainsFunc(unit, func(r rune) bool { return !IsIDRune(r) }) {
		d.Add(f.Value.At, "unit %q must be of letters, digits, dots, underscores and hyphens; change the others", source.Shorten(unit))
		return ""
	}
	return unit
}

// WholePPM is all keys, in millionths.
const WholePPM = 1_000_000

// shadow reads the part of the keys that is only watched: true, false, or a text like "20%".
func (d *decoder) shadow(f *source.Field) *int32 {
	ppm := int32(0)
	if f.Value.Kind != source.KindString && f.Value.Kind != source.KindNumber {
		if all := d.Bool(f); all == nil {
			return nil
		} else if *all {
			ppm = WholePPM
		}
		return &ppm
	}
	percent, isPercent := strings.CutSuffix(f.Value.Text, "%")
	v, why := source.ParseDecimal(percent)
	if !isPercent || why != "" || v.Sign() < 0 || v.Cmp(big.NewRat(100, 1)) > 0 {
		d.Add(f.Value.At, "shadow must be true, false or a part of the keys from \"0%%\" to \"100%%\"; write it like \"20%%\"")
		return nil
	}
	v.Mul(v, big.NewRat(WholePPM/100, 1))
	if !v.IsInt() {
		d.Add(f.Value.At, "shadow has more than four decimal places; write it like \"0.25%%\"")
		return nil
	}
	ppm = int32(v.Num().Int64())
	return &ppm
}

// ReportMisplaced reports settings of a level that belong to another algorithm or placement than the
// one that applies there. all is the level with what it inherits.
func (level Settings) ReportMisplaced(d *source.Reader, all Settings) {
	if all.Broken {
		return
	}
	if level.modeAt != (source.Position{}) && all.Algorithm != LeakyBucket {
		d.Add(level.modeAt, "mode belongs to algorithm %s, this is %s; remove it", LeakyBucket, all.Algorithm)
	}
	if level.unit == UnitConcurrency && all.Algorithm != Concurrency {
		d.Add(level.unitAt, "unit %s belongs to algorithm %s, this is %s; name another unit", UnitConcurrency, Concurrency, all.Algorithm)
	}
	if level.Enforcement == Elastic && AlgorithmOf(all.Algorithm).Counts() {
		d.Warn(level.enforcementAt, "elastic has no effect on algorithm %s, which earns nothing while it is idle: a region that is cut off admits its floor, as with strict", all.Algorithm)
	}
	if level.Overrun == OverrunDebt && all.Algorithm == Concurrency {
		d.Add(level.overrunAt, "overrun: %s is about what was used already, and a slot that there is not cannot be held; remove it", OverrunDebt)
	}
	if level.borrowWaitAt != (source.Position{}) && all.Placement == Split {
		d.Add(level.borrowWaitAt, "borrow_wait belongs to placement %s and %s, this is %s; remove it", Home, Auto, all.Placement)
	}
}

// key reads the attribute names of a key. The result is not nil.
func (d *decoder) key(f *source.Field) []string {
	names := []string{}
	for _, ref := range d.Names(f, "an attribute name of key", MaxKeyAttributes) {
		names = append(names, ref.Name)
		if meant := source.Near(ref.Name, usualAttributes); meant != "" {
			d.Warn(ref.At, "key names %q, which is no usual attribute; is %q meant? An attribute that requests do not have gives all of them one bucket", ref.Name, meant)
		}
	}
	return names
}

// usualAttributes are the names that front doors set, and that callers use by custom.
var usualAttributes = []string{APIKeyAttribute, EndpointAttribute, "method", "ip", "user", TierAttribute, "org", "project", "model", "domain"}

func UnitOf(all Settings) string {
	switch {
	case all.unit != "":
		return all.unit
	case all.Algorithm == Concurrency:
		return UnitConcurrency
	}
	return UnitRequests
}
