package plants

// elastic are bugs of limits whose cold buckets hold more than the floor.
func elastic() []Plant {
	const (
		view   = "limit/view.go"
		apply  = "limit/apply.go"
		extra  = "limit/extra.go"
		settle = "limit/settle.go"
	)
	return []Plant{
		{
			Name: "elastic-rate", Breaks: "an elastic cold bucket refills at theta r, the whole rate in every region",
			Edits: []Edit{{view, "return Bucket{Cap: v.Floor.Cap + v.Extra, Rate: v.Floor.Rate}",
				"b := Bucket{Cap: v.Floor.Cap + v.Extra, Rate: v.Floor.Rate}\n	if v.Floor.Cap > 0 {\n		b.Rate.Micro = int64(float64(b.Rate.Micro) * float64(b.Cap) / float64(v.Floor.Cap))\n	}\n	return b"}},
		},
		{
			Name: "elastic-record-expires", Breaks: "an elastic record is kept only until a strict one would be full",
			Edits: []Edit{{apply, "missing := float64(cold.Cap - tokens)", "missing := float64(cold.Cap/3 - tokens)"}},
		},
		{
			Name: "extra-refills", Breaks: "tokens above the floor are earned while the key is hot",
			Edits: []Edit{{extra, "	r.Extra -= extra\n", "	r.Extra -= extra / 2\n"}},
		},
		{
			Name: "extra-set-apart-twice", Breaks: "tokens that are set apart stay in the share as well",
			Edits: []Edit{{extra, "	r.Tokens -= r.Extra\n", ""}},
		},
		{
			Name: "cools-after-seconds", Breaks: "a key cools down after ten unused seconds, however long its buckets need to fill",
			Edits:    []Edit{{"budget/leader_cool.go", "return max(minCoolAfter, l.cfg.Lengthen(full))", "return min(minCoolAfter, l.cfg.Lengthen(full))"}},
			Harmless: "argued: the first design let an elastic key cool down only N theta C/r after the last use, for its buckets became full with it. Here the record is kept, with what it holds, so cooling creates no token whenever it comes; the time only decides when it is worth the messages",
		},
	}
}
