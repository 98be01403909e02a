package budget

// SetConfig gives the region what a state file remembers: the configuration, the
// initial store epoch, and the highest leader's epoch it had a session in. Not for
// use once a session is open.
func (r *Region) SetConfig(self int, cfg Config, initialRedisEpoch string, epoch uint64, now Instant) {
	r.self, r.cfg, r.initialEpoch, r.highestEpoch = self, cfg, initialRedisEpoch, epoch
	r.adoptFloor(now)
}

// told is the floor in force while coordinators may be heard. Keys that were hot
// before the floor grew have liabilities of their own, which need not cover it: only
// a session tells them. Until one has been opened under a changed floor, no more is
// enforced than the region has had all along.
func (r *Region) told() Share {
	own := &r.cfg.Regions[r.self]
	if own.FloorVersion != 0 && own.FloorVersion != r.floorOpened {
		return own.Floor.Min(own.Low)
	}
	return own.Floor
}

// openFloor puts the whole floor in force, now that every hot key is told.
func (r *Region) openFloor(now Instant) {
	if version := r.cfg.Regions[r.self].FloorVersion; version != r.floorOpened {
		r.floorOpened = version
		if version != 0 {
			r.floorSince = now
		}
	}
}

// adoptFloor notes when the floor changed. A daemon that does not know takes it to
// be now.
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

// limboFloor is what a cold key may use in limbo. To a daemon that has been told
// nothing an absent record may be that of a key that was lent, lost with the old
// store contents while nobody here remembers it: it counts on nothing.
func (r *Region) limboFloor(floor Share) Share {
	if r.blind && !r.StoreStartedFull() {
		return Share{}
	}
	return floor
}
