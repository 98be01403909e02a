package rules

import "time"

// settings are what defaults, tiers and rules can all state. Zero means not stated.
type settings struct {
	params         params
	algorithm      string
	enforcement    string
	placement      string
	borrowWait     time.Duration
	onRedisFailure string
	localCache     *bool
	shadow         *bool
	key            []string // nil if not stated, empty for []
	// broken: params were refused or may stand under a wrong name, so that a missing
	// limit would only be a consequence, not worth reporting.
	broken bool

	// modeAt and borrowWaitAt are where this level states them, zero if it does not.
	// The value of mode is checked and let go: what it belongs to is refused so far.
	modeAt, borrowWaitAt position
}

// over lays the settings of a nearer level over inherited ones.
func (s settings) over(inherited settings) settings {
	out := inherited
	out.params = s.params.over(inherited.params)
	out.broken = s.broken || inherited.broken
	if s.algorithm != "" {
		out.algorithm = s.algorithm
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
	if s.localCache != nil {
		out.localCache = s.localCache
	}
	if s.shadow != nil {
		out.shadow = s.shadow
	}
	if s.key != nil {
		out.key = s.key
	}
	return out
}

// builtIn is what holds where the file states nothing.
func builtIn() settings {
	yes, no := true, false
	return settings{
		algorithm:      TokenBucket,
		enforcement:    Elastic,
		placement:      Auto,
		borrowWait:     DefaultBorrowWait,
		onRedisFailure: FailLocal,
		localCache:     &yes,
		shadow:         &no,
		key:            []string{apiKeyAttribute},
	}
}

// settingsOf reads a mapping that holds settings only.
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
		"mode":             func(f *field) { s.modeAt = f.at; d.choose(f, leakyModes()) },
		"enforcement":      func(f *field) { s.enforcement = d.choose(f, enforcements()) },
		"placement":        func(f *field) { s.placement = d.chooseOrBreak(f, s, placements()) },
		"borrow_wait":      func(f *field) { s.borrowWaitAt = f.at; s.borrowWait = d.borrowWait(f) },
		"on_redis_failure": func(f *field) { s.onRedisFailure = d.choose(f, redisFailures()) },
		"local_cache":      func(f *field) { s.localCache = d.bool(f) },
		"shadow":           func(f *field) { s.shadow = d.bool(f) },
		"key":              func(f *field) { s.key = d.key(f) },
	}
}

// paramsOf reads params. What is broken stays so: fields come in any order.
func (d *decoder) paramsOf(f *field, s *settings) {
	before := d.count()
	s.params = d.params(f.value, "params")
	s.broken = s.broken || d.count() > before
}

// chooseOrBreak is choose for a setting on which it depends what others may say.
func (d *decoder) chooseOrBreak(f *field, s *settings, choices []choice) string {
	chosen := d.choose(f, choices)
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

// misplaced reports settings of this level that belong to another algorithm or
// placement than the one in force at it; all is the level with what it inherits.
func (d *decoder) misplaced(level, all settings) {
	if all.broken {
		return
	}
	if level.modeAt != (position{}) && all.algorithm != leakyBucket {
		d.add(level.modeAt, "mode belongs to algorithm %s, this is %s; remove it", leakyBucket, all.algorithm)
	}
	if level.borrowWaitAt != (position{}) && all.placement == Split {
		d.add(level.borrowWaitAt, "borrow_wait belongs to placement %s and %s, this is %s; remove it", Home, Auto, all.placement)
	}
}

// key reads the attribute names of a key; the result is not nil.
func (d *decoder) key(f *field) []string {
	names := []string{}
	for _, ref := range d.names(f, "an attribute name of key", MaxKeyAttributes) {
		names = append(names, ref.name)
	}
	return names
}
