package compare

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"text/tabwriter"
	"time"
)

// Table is every limiter under every workload.
type Table struct {
	Outcomes []Outcome  `json:"outcomes"`
	Steps    []StepTime `json:"steps"`
}

// StepTime is how long a limiter takes to follow a demand step: until 95 % of the limit
// is used where the demand is now, over many seeds.
type StepTime struct {
	Limiter string        `json:"limiter"`
	RTT     time.Duration `json:"rtt"`
	Runs    int           `json:"runs"`
	P50     time.Duration `json:"p50"`
	P99     time.Duration `json:"p99"`
	Max     time.Duration `json:"max"`
}

// stepRuns is over how many seeds the demand step is measured.
const stepRuns = 200

// Measure makes the table, with as many runs at a time as there are workers. The same
// seed is the same table. The error names promises that were seen broken.
func Measure(seed uint64, workers int) (Table, error) {
	var t Table
	var jobs []func() error
	for _, w := range Workloads() {
		for _, k := range Kinds() {
			i := len(t.Outcomes)
			t.Outcomes = append(t.Outcomes, Outcome{})
			jobs = append(jobs, func() (err error) {
				t.Outcomes[i], err = Run(k, w, seed)
				return err
			})
		}
	}
	for _, s := range stepTimes() {
		i := len(t.Steps)
		t.Steps = append(t.Steps, s)
		jobs = append(jobs, func() error { return t.Steps[i].measure() })
	}
	return t, runAll(jobs, workers)
}

// stepTimes are the rows of the demand step: every limiter of this world at the usual
// distance, the strict one at others.
func stepTimes() []StepTime {
	var out []StepTime
	for _, rtt := range []time.Duration{time.Millisecond, 20 * time.Millisecond, apart, 200 * time.Millisecond} {
		for _, k := range Kinds() {
			if k.Name == "strict" || rtt == apart && !k.Instant {
				out = append(out, StepTime{Limiter: k.Name, RTT: rtt, Runs: stepRuns})
			}
		}
	}
	return out
}

func (s *StepTime) measure() error {
	times, err := Converge(KindOf(s.Limiter), s.Runs, s.RTT)
	if err != nil {
		return err
	}
	s.P50, s.P99, s.Max = percentile(times, .5), percentile(times, .99), times[len(times)-1]
	return nil
}

// runAll does all jobs.
func runAll(jobs []func() error, workers int) error {
	var (
		wg   sync.WaitGroup
		next = make(chan int)
		errs = make([]error, len(jobs))
	)
	for range max(workers, 1) {
		wg.Go(func() {
			for i := range next {
				errs[i] = jobs[i]()
			}
		})
	}
	for i := range jobs {
		next <- i
	}
	close(next)
	wg.Wait()
	return errors.Join(errs...)
}

// WriteText prints the table for people: a block for each workload.
func (t Table) WriteText(w io.Writer) {
	workload := ""
	for _, o := range t.Outcomes {
		if o.Workload != workload {
			workload = o.Workload
			fmt.Fprintf(w, "\n%s\n", workload)
			writeBlock(w, t.of(workload))
		}
	}
	fmt.Fprintf(w, "\ndemand step: until %.0f %% of the limit is used where the demand is now, over %d seeds\n", usable*100, stepRuns)
	rows := [][]string{{"", "RTT", "p50", "p99", "max"}}
	for _, s := range t.Steps {
		rows = append(rows, []string{s.Limiter, s.RTT.String(), millis(s.P50), millis(s.P99), millis(s.Max)})
	}
	writeRows(w, rows)
}

// of are the outcomes of one workload.
func (t Table) of(workload string) []Outcome {
	var out []Outcome
	for _, o := range t.Outcomes {
		if o.Workload == workload {
			out = append(out, o)
		}
	}
	return out
}

func writeBlock(w io.Writer, outcomes []Outcome) {
	rows := [][]string{{"", "ratio", "of own", "gain", "excess", "used", "false", "own part", "Jain", "moves/min", "p50", "p99"}}
	for _, o := range outcomes {
		rows = append(rows, []string{
			o.Limiter, figure(o.Ratio), figure(o.OwnRatio), figure(o.Gain), fmt.Sprintf("%.2f C", o.Excess), figure(o.Utilisation),
			fmt.Sprintf("%.3f %%", o.FalseRejections*100), known(o.LeastServed), known(o.Jain),
			fmt.Sprintf("%.0f", o.MovesAMinute), millis(o.LatencyP50), millis(o.LatencyP99),
		})
	}
	writeRows(w, rows)
}

func writeRows(w io.Writer, rows [][]string) {
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	for _, r := range rows {
		fmt.Fprintln(tw, strings.Join(r, "\t")+"\t")
	}
	tw.Flush()
}

// known leaves out what is not measured of a workload of many keys.
func known(x float64) string {
	if x == 0 {
		return "-"
	}
	return figure(x)
}

// figure has three digits.
func figure(x float64) string { return fmt.Sprintf("%.3f", x) }

func millis(d time.Duration) string {
	return fmt.Sprintf("%.0f ms", float64(d)/float64(time.Millisecond))
}
