package regional

import (
	"context"
	"errors"
	"time"

	"aliquot/budget"
	"aliquot/limit"
	"aliquot/lua"
)

const (
	// probeEvery spaces the store calls that an idle daemon makes to know the
	// store's clock and health.
	probeEvery = time.Second
	// probeRule is the rule number of the probe's own record: the largest, which no
	// rule reaches.
	probeRule = 1<<32 - 1
)

// keepStore learns the store's contents at the start, and then sees to it that the
// store's clock and health are known even when no check comes.
func (d *Daemon) keepStore(ctx context.Context) {
	for {
		wait := probeEvery
		switch {
		case d.auth.currentEpoch() == "":
			if err := d.guard.learn(ctx); err != nil {
				d.log.Error("the regional store cannot be reached; asking again", "reason", reason(err), "error", err)
			} else {
				wait = 0
			}
		case d.auth.clock.age(d.cfg.Now()) >= probeEvery:
			d.probe(ctx)
		}
		if !pause(ctx, wait) && ctx.Err() != nil {
			return
		}
	}
}

// probe takes a millionth of a token from a bucket of its own.
func (d *Daemon) probe(ctx context.Context) {
	one := limit.Limit{Capacity: limit.Token, Rate: limit.Rate{Micro: int64(limit.Token)}}
	g := &group{cost: 1, asks: []ask{{limit: one, key: budget.KeyID{Rule: probeRule}}}}
	head := d.auth.grant([]*group{g})
	_, err := d.guard.take(ctx, head.epoch, func() []lua.Group { return callOf(&head, []*group{g}, nil) })
	if _, other := errors.AsType[*lua.EpochError](err); other {
		_ = d.guard.learn(ctx) // asked again in a second
	}
}
