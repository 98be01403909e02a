package compare

import "time"

// Converge measures how long a limiter takes to follow the demand step, over as many
// seeds as there are runs: the step comes at another instant of everyone's pace in each.
func Converge(kind Kind, runs int, rtt time.Duration) (sorted []time.Duration, err error) {
	for seed := range runs {
		w := Far(Step(), rtt)
		// The demand settles in 5 s, and 5 s after the step show whether it stays so.
		w.Step = 5*time.Second + time.Duration(seed)*7919*time.Microsecond
		w.Length = w.Step + 5*time.Second
		w.Sources[0].Until, w.Sources[1].From = w.Step, w.Step
		o, err := Run(kind, w, uint64(seed)+1)
		if err != nil {
			return nil, err
		}
		sorted = append(sorted, o.Converged)
	}
	return sortedTimes(sorted), nil
}
