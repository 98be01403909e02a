package compare

import "time"

// The workloads that are run on real daemons too, to see whether the simulator tells the
// truth: rotation, step and flood as above, with rates that one machine can send and
// regions that are all on it. What is compared is what was admitted, by region, over the
// whole run.

// localDelay is the distance of daemons on one machine.
const localDelay = time.Millisecond

// AgreedFloodRate is a flood that one machine can send beside the daemons it floods.
const AgreedFloodRate = 5000

// Agreed are the three.
func Agreed() (rotation, step, flood Workload) {
	rotation, step, flood = Far(Rotation(), localDelay), Far(Step(), localDelay), Far(Flood(), localDelay)
	flood.Sources[0].Rate = AgreedFloodRate
	for _, w := range []*Workload{&rotation, &step, &flood} {
		w.Measured = 0
		for i := range w.Sources {
			w.Sources[i].Random = false
		}
	}
	return rotation, step, flood
}

// AgreedCrowd is the crowd that is run on real daemons.
func AgreedCrowd(perSecond float64) Workload { return Far(Crowd(perSecond), localDelay) }
