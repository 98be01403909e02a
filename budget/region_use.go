package budget

import (
	"time"

	"aliquot/internal/hashslot"
)

// The share of a counting limit can shrink below what is in use. What was admitted counts until its
// window has passed, or its slot is released. The share is in force at once. It is acknowledged
// only as far as use has come down, because the difference may go to other regions. Until use has
// come down to it, the region keeps examining its store.

// useCheckEvery is the interval between examinations of one key's use. What others wait for comes
// free bit by bit.
const useCheckEvery = 250 * time.Millisecond

// recordOutlasting records how much use outlasts a share that was just applied or examined again, and
// queues that for a report.
//
// A share that the store does not have is not reported at all. It may be less than the floor, which
// a daemon that learns the rule later would enforce. Without an acknowledgement no other region is
// given the difference.
func (r *Region) recordOutlasting(k KeyID, h *hotKey, res ShareResult, now Instant) {
	h.unenforced = res.Unenforced
	if res.Unenforced {
		r.scheduleUseCheck(k, h, now.Add(useCheckEvery))
		return
	}
	h.label, h.labelTail, h.inUse, h.mustAck = res.Label, res.Tail, 0, true
	if res.Due > 0 {
		h.inUse = max(partOf(res.InUse, res.Capacity), min(h.share.Burst, Unit-1)+1)
		r.scheduleUseCheck(k, h, now.Add(min(r.cfg.Lengthen(res.Due), useCheckEvery)))
	}
	r.queue(k, h)
}

// scheduleUseCheck schedules the next examination of a key in the store.
func (r *Region) scheduleUseCheck(k KeyID, h *hotKey, at Instant) {
	h.checkUseAt = at
	if !h.outlasting {
		h.outlasting = true
		r.outlasting = append(r.outlasting, k)
	}
}

// dueUseChecks returns the keys whose use may have come down, no more than most of them.
func (r *Region) dueUseChecks(maxKeys int, now Instant) []KeyID {
	var due []KeyID
	waiting := r.outlasting[:0]
	for _, k := range r.outlasting {
		h := r.hot[k]
		if h == nil {
			continue
		}
		if h.inUse == 0 && !h.unenforced {
			h.outlasting = false
			continue
		}
		waiting = append(waiting, k)
		if now >= h.checkUseAt && len(due) < maxKeys && !r.unreached.Has(hashslot.OfHash(k.Hash)) {
			due = append(due, k)
		}
	}
	clear(r.outlasting[len(waiting):])
	r.outlasting = waiting
	return due
}

// checkUse adds keys to a part whose use the store is to report. It skips keys whose shares the
// directive has just changed.
func (r *Region) checkUse(changes []ShareChange, now Instant) []ShareChange {
	a := r.applying
	for len(a.useChecks) > 0 && len(changes) < r.part {
		k := a.useChecks[0]
		a.useChecks = a.useChecks[1:]
		h := r.hot[k]
		if _, changing := a.left[k]; changing || h == nil || h.inUse == 0 && !h.unenforced || now < h.checkUseAt {
			continue
		}
		changes = append(changes, ShareChange{
			Key: k, Before: r.Right(k, h.limit, now), Gen: h.gen, Share: h.share, Limit: h.limit,
		})
	}
	return changes
}

// useChecked records what the store reported of a share that did not change.
func (r *Region) useChecked(res ShareResult, now Instant) {
	if h := r.hot[res.Key]; h != nil && !res.Failed {
		h.tokens = max(0, res.Tokens)
		r.recordOutlasting(res.Key, h, res, now)
	}
}

// partOf returns an amount as a part of a capacity in units of 2^-20, rounded up. It returns the
// whole if the amount is not below the capacity, or if the capacity is not known.
func partOf(amount, capacity int64) int32 {
	if amount >= capacity {
		return Unit
	}
	part := int32(mulDiv(amount, Unit, capacity))
	if Scale(capacity, part) < amount {
		part++
	}
	return part
}
