package rules

import (
	"math/big"
	"strings"
	"time"

	"aliquot/rules/source"
)

// settings are what defaults, tiers and rules can all state. Zero means not stated.
type settings struct {
	params         params
	algorithm      string
	mode           string
	unit           string
	enforcement    string
	placement      string
	borrowWait     time.Duration
	onRedisFailure string
	onDataLoss     string
	overrun        string
	requestLimit   string
	localCache     *bool
	shadow         *int32   // millionths of the keys
	key            []string // nil if not stated, empty for []
	coolDown       *CoolDown
	autoBlock      *AutoBlock
	// broken: params were refused or may be under a wrong name. A missing limit would only be a
	// consequence of that and is not reported.
	broken bool

	// The places where this level states them; zero if it does not.
	modeAt, unitAt, borrowWaitAt, enforcementAt, overrunAt source.Position
}

// over lays the settings of a nearer level over inherited ones.
func (s settings) over(inherited settings) settings {
	out := inherited
	out.params = s.params.over(inherited.params)
	out.broken = s.broken || inherited.broken
	if s.algorithm != "" {
		out.algorithm = s.algorithm
	}
	if s.mode != "" {
		out.mode = s.mode
	}
	if s.unit != "" {
		out.unit = s.unit
	}
	if s.enforcement != "" {
		out.enforcement = s.enforcement
	}
	if s.placement != "" {
		out.placement = s.placement
	}
	if s.borrowWait != 0 {
		out.borrowWait = s.borrowWait
	}
	if s.onRedisFailure != "" {
		out.onRedisFailure = s.onRedisFailure
	}
	if s.onDataLoss != "" {
		out.onDataLoss = s.onDataLoss
	}
	if s.overrun != "" {
		out.overrun = s.overrun
	}
	if s.requestLimit != "" {
		out.requestLimit = s.requestLimit
	}
	if s.localCache != nil {
		out.localCache = s.localCache
	}
	if s.shadow != nil {
		out.shadow = s.shadow
	}
	if s.key != nil {
		out.key = s.key
	}
	if s.coolDown != nil {
		out.coolDown = s.coolDown
	}
	if s.autoBlock != nil {
		out.autoBlock = s.autoBlock
	}
	return out
}

// builtIn returns the settings that apply if the file states nothing.
func builtIn() settings {
	yes, nobody := true, int32(0)
	return settings{
		algorithm:      TokenBucket,
		mode:           modeMeter,
		enforcement:    Elastic,
		placement:      Auto,
		borrowWait:     AutoBorrowWait,
		onRedisFailure: FailLocal,
		localCache:     &yes,
		shadow:         &nobody,
		key:            []string{apiKeyAttribute},
		coolDown:       &CoolDown{},
		autoBlock:      &AutoBlock{},
	}
}

// settingsOf reads a mapping that has only settings.
func (d *decoder) settingsOf(n *source.Node, what string) settings {
	var s settings
	if !d.Mapping(n, what, d.settingsSchema(&s)) {
		s.broken = true
	}
	return s
}

// settingsSchema reads settings into s.
func (d *decoder) settingsSchema(s *settings) source.Schema {
	return source.Schema{
		"params":           func(f *source.Field) { d.paramsOf(f, s) },
		"algorithm":        func(f *source.Field) { s.algorithm = d.chooseOrBreak(f, s, algorithms()) },
		"mode":             func(f *source.Field) { s.modeAt = f.At; s.mode = d.Choose(f, leakyModes()) },
		"unit":             func(f *source.Field) { s.unitAt = f.At; s.unit = d.unit(f) },
		"enforcement":      func(f *source.Field) { s.enforcementAt = f.At; s.enforcement = d.Choose(f, enforcements()) },
		"placement":        func(f *source.Field) { s.placement = d.chooseOrBreak(f, s, placements()) },
		"borrow_wait":      func(f *source.Field) { s.borrowWaitAt = f.At; s.borrowWait = d.borrowWait(f) },
		"on_redis_failure": func(f *source.Field) { s.onRedisFailure = d.Choose(f, redisFailures()) },
		"on_data_loss":     func(f *source.Field) { s.onDataLoss = d.Choose(f, dataLosses()) },
		"overrun":          func(f *source.Field) { s.overrunAt = f.At; s.overrun = d.Choose(f, overruns()) },
		"request_limit":    func(f *source.Field) { s.requestLimit = d.Choose(f, requestLimits()) },
		"local_cache":      func(f *source.Field) { s.localCache = d.Bool(f) },
		"shadow":           func(f *source.Field) { s.shadow = d.shadow(f) },
		"key":              func(f *source.Field) { s.key = d.key(f) },
		"cool_down":        func(f *source.Field) { s.coolDown = d.coolDown(f) },
		"auto_block":       func(f *source.Field) { s.autoBlock = d.autoBlock(f) },
	}
}

// paramsOf reads params. broken is never reset, because fields come in any order.
func (d *decoder) paramsOf(f *source.Field, s *settings) {
	before := d.Count()
	s.params = d.params(f.Value, "params")
	s.broken = s.broken || d.Count() > before
}

// chooseOrBreak is choose for a setting that determines what other settings may state.
func (d *decoder) chooseOrBreak(f *source.Field, s *settings, words []string) string {
	chosen := d.Choose(f, words)
	s.broken = s.broken || chosen == ""
	return chosen
}

// borrowWait reads how long a request may wait for its share to move.
func (d *decoder) borrowWait(f *source.Field) time.Duration {
	v, ok := d.duration(f)
	if ok && (v < minBorrowWait || v > maxBorrowWait) {
		d.Add(f.Value.At, "%s must be from 1ms to 10s; write it like 150ms", f.Name)
	}
	return v
}

// unit reads the name of the unit that a limit counts.
func (d *decoder) unit(f *source.Field) string {
	unit, ok := d.Text(f.Value, "unit", MaxNameChars)
	if ok && strings.ContainsFunc(unit, func(r rune) bool { return !isIDRune(r) }) {
		d.Add(f.Value.At, "unit %q must be of letters, digits, dots, underscores and hyphens; change the others", source.Shorten(unit))
		return ""
	}
	return unit
}

// wholePPM is all keys, in millionths.
const wholePPM = 1_000_000

// shadow reads the part of the keys that is only watched: true, false, or a text like "20%".
func (d *decoder) shadow(f *source.Field) *int32 {
	ppm := int32(0)
	if f.Value.Kind != source.KindString && f.Value.Kind != source.KindNumber {
		if all := d.Bool(f); all == nil {
			return nil
		} else if *all {
			ppm = wholePPM
		}
		return &ppm
	}
	percent, isPercent := strings.CutSuffix(f.Value.Text, "%")
	v, why := source.ParseDecimal(percent)
	if !isPercent || why != "" || v.Sign() < 0 || v.Cmp(big.NewRat(100, 1)) > 0 {
		d.Add(f.Value.At, "shadow must be true, false or a part of the keys from \"0%%\" to \"100%%\"; write it like \"20%%\"")
		return nil
	}
	v.Mul(v, big.NewRat(wholePPM/100, 1))
	if !v.IsInt() {
		d.Add(f.Value.At, "shadow has more than four decimal places; write it like \"0.25%%\"")
		return nil
	}
	ppm = int32(v.Num().Int64())
	return &ppm
}

// misplaced reports settings of a level that belong to another algorithm or placement than the one
// that applies there. all is the level with what it inherits.
func (d *decoder) misplaced(level, all settings) {
	if all.broken {
		return
	}
	if level.modeAt != (source.Position{}) && all.algorithm != LeakyBucket {
		d.Add(level.modeAt, "mode belongs to algorithm %s, this is %s; remove it", LeakyBucket, all.algorithm)
	}
	if level.unit == UnitConcurrency && all.algorithm != Concurrency {
		d.Add(level.unitAt, "unit %s belongs to algorithm %s, this is %s; name another unit", UnitConcurrency, Concurrency, all.algorithm)
	}
	if level.enforcement == Elastic && algorithmNamed(all.algorithm).Counts() {
		d.Warn(level.enforcementAt, "elastic has no effect on algorithm %s, which earns nothing while it is idle: a region that is cut off admits its floor, as with strict", all.algorithm)
	}
	if level.overrun == overrunDebt && all.algorithm == Concurrency {
		d.Add(level.overrunAt, "overrun: %s is about what was used already, and a slot that there is not cannot be held; remove it", overrunDebt)
	}
	if level.borrowWaitAt != (source.Position{}) && all.placement == Split {
		d.Add(level.borrowWaitAt, "borrow_wait belongs to placement %s and %s, this is %s; remove it", Home, Auto, all.placement)
	}
}

// key reads the attribute names of a key. The result is not nil.
func (d *decoder) key(f *source.Field) []string {
	names := []string{}
	for _, ref := range d.Names(f, "an attribute name of key", MaxKeyAttributes) {
		names = append(names, ref.Name)
	}
	return names
}
