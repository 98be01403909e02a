package budget

// SetConfig restores what a state file has saved: the configuration, the initial store epoch, and
// the highest leader epoch in which the region had a session. It must not be called once a session
// is open.
func (r *Region) SetConfig(self int, cfg Config, initialRedisEpoch string, epoch uint64, now Instant) {
	r.self, r.cfg, r.initialEpoch, r.highestEpoch = self, cfg, initialRedisEpoch, epoch
	r.adoptFloor(now)
}

// told returns the floor in force while coordinators may be heard. Keys that were hot before the
// floor grew have liabilities of their own, which need not cover the new floor, and only a session
// tells the region which keys those are. Until a session was opened under a changed floor, the
// region enforces no more than it had all along.
func (r *Region) toldFloor() Share {
	own := &r.cfg.Regions[r.self]
	if own.FloorVersion != 0 && own.FloorVersion != r.floorOpened {
		return own.Floor.Min(own.Low)
	}
	return own.Floor
}

// openFloor puts the whole floor in force, now that the region was told every hot key.
func (r *Region) openFloor(now Instant) {
	if version := r.cfg.Regions[r.self].FloorVersion; version != r.floorOpened {
		r.floorOpened = version
		if version != 0 {
			r.floorSince = now
		}
	}
}

// adoptFloor records when the floor changed. A daemon that does not know takes the present.
func (r *Region) adoptFloor(now Instant) {
	version := r.cfg.Regions[r.self].FloorVersion
	if version == r.floorVersion {
		return
	}
	r.floorVersion, r.floorSince = version, now
	if version == 0 {
		r.floorSince = 0
	}
}

// limboFloor returns what a cold key may use in limbo. A daemon that was told nothing counts on
// nothing: an absent record may be that of a lent key, lost with the old store contents while no
// daemon here remembers it.
func (r *Region) limboFloor(floor Share) Share {
	if r.blind && !r.StoreStartedFull() {
		return Share{}
	}
	return floor
}
