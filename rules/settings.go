package rules

import (
	"math/big"
	"strings"
	"time"
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
	modeAt, unitAt, borrowWaitAt, enforcementAt, overrunAt position
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
func (d *decoder) settingsOf(n *node, what string) settings {
	var s settings
	if !d.mapping(n, what, d.settingsSchema(&s)) {
		s.broken = true
	}
	return s
}

// settingsSchema reads settings into s.
func (d *decoder) settingsSchema(s *settings) schema {
	return schema{
		"params":           func(f *field) { d.paramsOf(f, s) },
		"algorithm":        func(f *field) { s.algorithm = d.chooseOrBreak(f, s, algorithms()) },
		"mode":             func(f *field) { s.modeAt = f.at; s.mode = d.choose(f, leakyModes()) },
		"unit":             func(f *field) { s.unitAt = f.at; s.unit = d.unit(f) },
		"enforcement":      func(f *field) { s.enforcementAt = f.at; s.enforcement = d.choose(f, enforcements()) },
		"placement":        func(f *field) { s.placement = d.chooseOrBreak(f, s, placements()) },
		"borrow_wait":      func(f *field) { s.borrowWaitAt = f.at; s.borrowWait = d.borrowWait(f) },
		"on_redis_failure": func(f *field) { s.onRedisFailure = d.choose(f, redisFailures()) },
		"on_data_loss":     func(f *field) { s.onDataLoss = d.choose(f, dataLosses()) },
		"overrun":          func(f *field) { s.overrunAt = f.at; s.overrun = d.choose(f, overruns()) },
		"request_limit":    func(f *field) { s.requestLimit = d.choose(f, requestLimits()) },
		"local_cache":      func(f *field) { s.localCache = d.bool(f) },
		"shadow":           func(f *field) { s.shadow = d.shadow(f) },
		"key":              func(f *field) { s.key = d.key(f) },
		"cool_down":        func(f *field) { s.coolDown = d.coolDown(f) },
		"auto_block":       func(f *field) { s.autoBlock = d.autoBlock(f) },
	}
}

// paramsOf reads params. broken is never reset, because fields come in any order.
func (d *decoder) paramsOf(f *field, s *settings) {
	before := d.count()
	s.params = d.params(f.value, "params")
	s.broken = s.broken || d.count() > before
}

// chooseOrBreak is choose for a setting that determines what other settings may state.
func (d *decoder) chooseOrBreak(f *field, s *settings, words []string) string {
	chosen := d.choose(f, words)
	s.broken = s.broken || chosen == ""
	return chosen
}

// borrowWait reads how long a request may wait for its share to move.
func (d *decoder) borrowWait(f *field) time.Duration {
	v, ok := d.duration(f)
	if ok && (v < minBorrowWait || v > maxBorrowWait) {
		d.add(f.value.at, "%s must be from 1ms to 10s; write it like 150ms", f.name)
	}
	return v
}

// unit reads the name of the unit that a limit counts.
func (d *decoder) unit(f *field) string {
	unit, ok := d.text(f.value, "unit", MaxNameChars)
	if ok && strings.ContainsFunc(unit, func(r rune) bool { return !isIDRune(r) }) {
		d.add(f.value.at, "unit %q must be of letters, digits, dots, underscores and hyphens; change the others", shorten(unit))
		return ""
	}
	return unit
}

// wholePPM is all keys, in millionths.
const wholePPM = 1_000_000

// shadow reads the part of the keys that is only watched: true, false, or a text like "20%".
func (d *decoder) shadow(f *field) *int32 {
	ppm := int32(0)
	if f.value.kind != kindString && f.value.kind != kindNumber {
		if all := d.bool(f); all == nil {
			return nil
		} else if *all {
			ppm = wholePPM
		}
		return &ppm
	}
	percent, isPercent := strings.CutSuffix(f.value.text, "%")
	v, why := parseDecimal(percent)
	if !isPercent || why != "" || v.Sign() < 0 || v.Cmp(big.NewRat(100, 1)) > 0 {
		d.add(f.value.at, "shadow must be true, false or a part of the keys from \"0%%\" to \"100%%\"; write it like \"20%%\"")
		return nil
	}
	v.Mul(v, big.NewRat(wholePPM/100, 1))
	if !v.IsInt() {
		d.add(f.value.at, "shadow has more than four decimal places; write it like \"0.25%%\"")
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
	if level.modeAt != (position{}) && all.algorithm != LeakyBucket {
		d.add(level.modeAt, "mode belongs to algorithm %s, this is %s; remove it", LeakyBucket, all.algorithm)
	}
	if level.unit == UnitConcurrency && all.algorithm != Concurrency {
		d.add(level.unitAt, "unit %s belongs to algorithm %s, this is %s; name another unit", UnitConcurrency, Concurrency, all.algorithm)
	}
	if level.enforcement == Elastic && algorithmNamed(all.algorithm).Counts() {
		d.warn(level.enforcementAt, "elastic has no effect on algorithm %s, which earns nothing while it is idle: a region that is cut off admits its floor, as with strict", all.algorithm)
	}
	if level.overrun == overrunDebt && all.algorithm == Concurrency {
		d.add(level.overrunAt, "overrun: %s is about what was used already, and a slot that there is not cannot be held; remove it", overrunDebt)
	}
	if level.borrowWaitAt != (position{}) && all.placement == Split {
		d.add(level.borrowWaitAt, "borrow_wait belongs to placement %s and %s, this is %s; remove it", Home, Auto, all.placement)
	}
}

// key reads the attribute names of a key. The result is not nil.
func (d *decoder) key(f *field) []string {
	names := []string{}
	for _, ref := range d.names(f, "an attribute name of key", MaxKeyAttributes) {
		names = append(names, ref.name)
	}
	return names
}
