// Package faults has the scenarios in which processes, stores and the links between them are lost. It also opens holes
// of the promise again, to show that the repairs close them.
package faults

import (
	"aliquot/internal/e2e/promise"
)

// Scenarios returns the scenarios of faults, in the order in which they run: the last ones change the regions.
func Scenarios() []promise.Scenario {
	return []promise.Scenario{
		{Name: "leader killed", Run: leaderKilled},
		{Name: "follower wiped", Run: followerWiped},
		{Name: "leader wiped", Run: leaderWiped, Long: true},
		{Name: "regional killed", Run: regionalKilled},
		{Name: "a second daemon", Run: secondDaemon},
		{Name: "a store lost for one of two daemons", Run: storeLostForOneOfTwo},
		{Name: "store and coordinators heard by two daemons", Run: storeAndCoordinatorsApart},
		{Name: "one Redis flushed", Run: redisFlushed},
		{Name: "one Redis restarted", Run: redisRestarted},
		{Name: "one Redis stopped", Run: redisStopped},
		{Name: "a primary killed under Sentinels", Run: primaryKilled},
		{Name: "a node of a Redis Cluster stopped", Run: nodeStopped},
		{Name: "a node of a Redis Cluster killed", Run: nodeKilled, Long: true},
		{Name: "all coordinators killed", Run: coordinatorsKilled, Long: true},
		{Name: "a regional restarted without coordinators", Run: restartedAlone},
		{Name: "regions before coordinators", Run: regionsBeforeCoordinators},
		{Name: "a region comes and goes", Run: regionLifecycle},
		{Name: "links cut, processes paused", Run: cuts},
	}
}
