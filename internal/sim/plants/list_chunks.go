package plants

// chunks are bugs in what daemons take from their stores in advance.
func chunks() []Plant {
	const (
		record = "limit/chunk.go"
		apply  = "limit/apply.go"
		key    = "internal/prefetch/key.go"
		call   = "internal/prefetch/call.go"
		loan   = "internal/recall/loan.go"
	)
	chunked := World{Chunks: true}
	still := World{Chunks: true, Keys: 1, Faults: []string{"store commands stuck"}, Just: true}
	all := []Plant{
		{
			Name: "refill-ignores-loans", Breaks: "a bucket fills up to its whole capacity while a part of it is lent",
			Edits: []Edit{{record, "b.Cap = max(0, b.Cap-lent)", "_ = lent"}},
		},
		{
			Name: "lent-and-kept", Breaks: "what is lent is not taken from the record",
			Edits: []Edit{{record, "	r.Tokens -= grant\n", ""}},
		},
		{
			Name: "loan-forgotten", Breaks: "the next settlement counts what is lent as over",
			Edits: []Edit{{record, "	if now > r.LentUntil {\n", "	if r.Lent > 0 {\n"}},
		},
		{
			Name: "loan-of-another-time", Breaks: "what is brought back counts against whatever is lent now, though it was lost long ago",
			Edits: []Edit{{record, "|| r.LentUntil != c.Until {", "{"}},
		},
		{
			Name: "loan-never-over", Breaks: "what one caller still has moves with what another borrows: a holder that died keeps its part for ever",
			Edits: []Edit{{record, "	if others == 0 {\n		r.LentUntil", "	{\n		r.LentUntil"}},
		},
		{
			Name: "lent-in-limbo", Breaks: "a region without a lease lends what it has",
			Edits: []Edit{{record, "|| v.phaseAt(now) == Limbo || r.Extra", "|| r.Extra"}},
		},
		{
			Name: "lent-beside-extra", Breaks: "a bucket lends while it has extra tokens, which never fill up again",
			Edits: []Edit{{record, "|| r.Extra > 0 ||", "||"}},
		},
		{
			Name: "lent-under-an-older-share", Breaks: "a record lends to a caller that does not know its latest share",
			Edits: []Edit{{record, "return r.Gen == v.Gen || !v.Hot && r.Gen < v.Gen", "return true"}},
		},
		{
			Name: "shrink-ignores-loans", Breaks: "a share that shrinks below what is lent is acknowledged at once",
			Edits: []Edit{{apply, "		a.InUse, a.Due = out, r.LentUntil-now+1\n", "		_ = out\n"}},
		},
		{
			Name: "loan-beside-memory", Breaks: "a loan is spent beside what memory admitted while it was on its way",
			Edits: []Edit{{loan, "	out.Lent -= spent\n", ""}}, World: still,
		},
		{
			Name: "loan-returned-in-part", Breaks: "what memory admitted of a loan stays lent after the chunk is returned, and the bucket fills up to that much less",
			Edits: []Edit{{call, "	k.out += t.keep + out.Lent + t.spent\n", "	k.out += t.keep + out.Lent\n"}, {call, "k.left, k.out = 0, out.Lent+t.spent", "k.left, k.out = 0, out.Lent"}},
			World: still,
		},
		{
			Name: "loan-pays-what-was-carried", Breaks: "a loan pays for a debt that another call carries, which the store takes off the record too",
			Edits: []Edit{{loan, "		m.owed = 0\n", ""}}, World: still,
		},
		{
			Name: "loan-pays-twice", Breaks: "what a loan has paid for is taken off the debt again when the store charges a call late",
			Edits: []Edit{{loan, "d.total, d.mark = d.total-paid, t.nextMark()", "d.total -= paid"}}, World: still,
		},
		{
			Name: "loan-fills-an-unknown-key", Breaks: "a key that counts as empty while its share changes gains what a loan pays for",
			Edits: []Edit{{loan, "	if e, _ := t.keys.get(key); e.told {\n", "	{\n"}}, World: still,
			Harmless: "argued: while a share changes, the key counts as empty whatever a loan has paid, and the answer to the change replaces what is known",
		},
		{
			Name: "loan-of-lost-contents-spent", Breaks: "a loan that a store made before it lost its contents is spent beside what its new contents were told",
			Edits: []Edit{{loan, "m == nil || k.voided != t.voided", "m == nil"}}, World: still,
		},
		{
			Name: "chunk-outlives-life", Breaks: "a chunk is spent for as long as there is something left",
			Edits: []Edit{{key, "return k.live && now < k.end }", "return k.live }"}}, World: still,
		},
		{
			Name: "chunk-from-receipt", Breaks: "a chunk's life counts from the answer, not from before the call",
			Edits: []Edit{{call, "end := t.sent.Add(shrunk(", "end := received.Add(shrunk("}}, World: still,
		},
		{
			Name: "chunk-outlives-lease", Breaks: "a chunk is spent after the lease has ended that it was taken under",
			Edits: []Edit{{call, "	if t.leaseEnd != 0 {\n		end", "	if false {\n		end"}},
		},
		{
			Name: "chunk-outlives-share", Breaks: "a chunk that was asked for before the share changed is spent after that",
			Edits: []Edit{{call, "	case t.turn != k.turn:\n", "	case t.turn == ^k.turn:\n"}},
		},
		{
			Name: "chunk-outlives-contents", Breaks: "a chunk of a store's earlier contents is spent although the daemon knows the new ones",
			Edits: []Edit{{"internal/prefetch/validity.go", "return s != now, s.Contents != now.Contents", "return s != now && s.Contents == now.Contents, false"}},
		},
		{
			Name: "new-contents-at-once", Breaks: "new contents earn from their birth on, while chunks of earlier ones are spent",
			Edits: []Edit{{"internal/entitlement/frame.go", "		f.birth += d.spent()\n", ""}},
		},
		{
			Name: "chunk-kept-and-brought-back", Breaks: "what a call brought back stays with the daemon too, if the answer is lost",
			Edits: []Edit{{call, "	if t.drops == k.drops {\n		k.out += t.keep", "	if k.left += t.back; t.drops == k.drops {\n		k.out += t.keep"}}, World: still,
		},
		{
			Name: "kept-although-lost", Breaks: "a renewal keeps what the store counts as lost",
			Edits: []Edit{{call, "		if !out.Kept {\n", "		if false {\n"}}, World: still,
		},
		{
			Name: "denial-outlives-share", Breaks: "a denial is remembered although the share has grown since",
			Edits: []Edit{{call, "	k.live, k.reply = false, lastReply{}\n", "	k.live = false\n"}},
		},
	}
	for i := range all {
		if !all[i].World.Chunks {
			all[i].World = chunked
		}
	}
	return all
}
