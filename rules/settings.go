package rules

// settings are what defaults, tiers and rules can all state. Zero means not stated.
type settings struct {
	params         params
	algorithm      string
	enforcement    string
	onRedisFailure string
	localCache     *bool
	shadow         *bool
	key            []string // nil if not stated, empty for []
	// broken: params were refused or may stand under a wrong name, so that a missing
	// limit would only be a consequence, not worth reporting.
	broken bool
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
		enforcement:    Strict,
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

// settingsSchema reads settings into s. Algorithms, enforcements and placements to
// come are known by name, so that a file for a later version is refused with the
// reason and not as a misspelling.
func (d *decoder) settingsSchema(s *settings) schema {
	return schema{
		"params":           func(f *field) { d.paramsOf(f, s) },
		"algorithm":        func(f *field) { s.algorithm = d.choose(f, algorithms()) },
		"enforcement":      func(f *field) { s.enforcement = d.enforcement(f) },
		"placement":        func(f *field) { d.choose(f, placements()) },
		"on_redis_failure": func(f *field) { s.onRedisFailure = d.choose(f, redisFailures()) },
		"local_cache":      func(f *field) { s.localCache = d.bool(f) },
		"shadow":           func(f *field) { s.shadow = d.bool(f) },
		"key":              func(f *field) { s.key = d.key(f) },
		"mode":             d.notYet("remove it (it belongs to leaky_bucket)"),
		"borrow_wait":      d.notYet("remove it (it belongs to placement home)"),
	}
}

func (d *decoder) paramsOf(f *field, s *settings) {
	before := d.count()
	s.params = d.params(f.value, "params")
	s.broken = d.count() > before
}

func algorithms() []choice {
	const use = "use token_bucket"
	return []choice{
		{name: TokenBucket},
		{name: "leaky_bucket", later: use},
		{name: "fixed_window", later: use},
		{name: "sliding_window_log", later: use},
		{name: "sliding_window_counter", later: use},
	}
}

func placements() []choice {
	return []choice{{name: "split"}, {name: "home", later: "use split"}}
}

func redisFailures() []choice {
	return []choice{{name: FailLocal}, {name: FailOpen}, {name: FailClosed}}
}

// enforcement reads strict, and elastic as strict with a warning: whoever accepts
// an extra burst can live without it.
func (d *decoder) enforcement(f *field) string {
	chosen := d.choose(f, []choice{
		{name: Strict},
		{name: "elastic"},
		{name: "independent", later: "use strict"},
	})
	if chosen == "elastic" {
		d.warn(f.value.at, "elastic is enforced as strict in this version: same rate, no extra burst")
		return Strict
	}
	return chosen
}

// key reads the attribute names of a key; the result is not nil.
func (d *decoder) key(f *field) []string {
	names := []string{}
	seen := make(map[string]bool)
	d.list(f.value, "key", MaxKeyAttributes, func(item *node) {
		name, ok := d.text(item, "an attribute name of key", MaxNameChars)
		switch {
		case !ok:
		case seen[name]:
			d.add(item.at, "key names %q twice; remove one", name)
		default:
			seen[name] = true
			names = append(names, name)
		}
	})
	return names
}
