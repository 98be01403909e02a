package plants

// pauses are bugs of daemons that are put aside: the clock is read, and what it allowed is
// spent later.
func pauses() []Plant {
	return []Plant{
		{
			Name: "chunk-by-an-earlier-clock", Breaks: "a check goes by the clock that it read when it came, however long it has waited for its limits' locks",
			Edits: []Edit{{"regional/local.go", "	now := l.later(came)\n", "	now := came\n"}},
		},
		{
			Name: "emergency-outlives-lease", Breaks: "the emergency limit goes by a right whose lease has ended since it was read",
			Edits: []Edit{{"regional/emergency.go", "	case a.right.Until != 0 && now >= a.right.Until:\n", "	case a.right.Until < 0:\n"}},
		},
		{
			Name: "memory-by-an-earlier-clock", Breaks: "the memory store decides a group after the deadline of its call, if it has waited for a lock until then",
			Edits: []Edit{{"regional/store/memory.go", "	if err := late(g, now); err != nil {\n		return 0, err\n	}\n	m.takeLocked", "	m.takeLocked"}},
		},
	}
}
