package cli

import (
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"aliquot/internal/capacity"
	"aliquot/internal/cli/console"
)

func newCapacity(g *console.Globals) *cobra.Command {
	var (
		load  = capacity.Specified()
		costs = capacity.Measured()
		set   []string
		show  bool
	)
	cmd := &cobra.Command{
		Use:   "capacity",
		Short: "Estimate what an installation of a given size needs",
		Long: `Estimates the daemons, Redis servers, coordinators and wide-area traffic for a load.
The estimate uses measured unit costs: --costs prints them, --cost overrides one. The
defaults are the size that Aliquot is made for. docs/how-to/plan-capacity.md explains it.`,
		Example: `  aliquot capacity
  aliquot capacity --checks 100000 --gateways 4 --regions 2 --shards 2 --keys 50000 --batch 1
  aliquot capacity --cost check_us=2 --output json`,
		Args: cobra.NoArgs,
	}
	f := cmd.Flags()
	f.Float64Var(&load.Checks, "checks", load.Checks, "checks a second in all regions")
	f.Float64Var(&load.Limits, "limits", load.Limits, "limits (rules that match) of a check")
	f.Float64Var(&load.PerCall, "batch", load.PerCall, "checks in one call")
	f.IntVar(&load.Gateways, "gateways", load.Gateways, "gateways in all regions")
	f.IntVar(&load.Shards, "shards", load.Shards, "Redis servers in all regions")
	f.IntVar(&load.Regions, "regions", load.Regions, "regions")
	f.Float64Var(&load.Keys, "keys", load.Keys, "keys in use at a time")
	f.Float64Var(&load.Users, "regions-per-key", load.Users, "regions that use a key")
	f.Float64Var(&load.Zipf, "zipf", load.Zipf, "exponent of the keys' distribution; 0: all alike")
	f.Float64Var(&load.HotShare, "hot", load.HotShare, "part of the keys that have used up half of their floor somewhere")
	f.Float64Var(&load.MovesShare, "moves", load.MovesShare, "part of the hot keys that move to another region each second")
	f.IntVar(&load.Cores, "cores", load.Cores, "cores of a machine that runs a daemon")
	f.Float64Var(&load.Busy, "busy", load.Busy, "how far cores and Redis servers are to be loaded")
	f.StringArrayVar(&set, "cost", nil, "name=value of a unit cost, repeatable")
	f.BoolVar(&show, "costs", false, "print the unit costs instead")
	cmd.RunE = func(*cobra.Command, []string) error {
		for _, s := range set {
			if err := costs.Set(s); err != nil {
				return console.AsUsage(fmt.Errorf("--cost: %w", err))
			}
		}
		if show {
			return g.PrintValue(costs, func(w io.Writer) { printCosts(w, &costs) })
		}
		if err := load.Validate(); err != nil {
			return console.AsUsage(err)
		}
		need := capacity.Estimate(load, costs)
		if err := need.Validate(); err != nil {
			return console.AsUsage(err)
		}
		return g.PrintValue(need, func(w io.Writer) { printNeed(w, &need) })
	}
	return cmd
}

func printCosts(w io.Writer, c *capacity.Costs) {
	rows := [][]string{{"COST", "VALUE", "OF"}}
	c.Each(func(name string, value float64, meaning string) {
		rows = append(rows, []string{name, console.Figure(value), meaning})
	})
	console.Columns(w, rows)
}

func printNeed(w io.Writer, n *capacity.Need) {
	r, s, k := &n.Regional, &n.Redis, &n.Coordinator
	console.Columns(w, [][]string{
		{"EACH REGION", fmt.Sprintf("of %d", n.Load.Regions), ""},
		{"checks", large(r.Checks) + "/s", fmt.Sprintf("%s calls/s from each gateway", large(r.PerGateway))},
		{"daemons", strconv.Itoa(r.Daemons), fmt.Sprintf("%.1f busy cores, machines of %d", r.Cores, n.Load.Cores)},
		{"in memory", console.Percent(r.InMemory), fmt.Sprintf("of the checks; each daemon holds tokens of %s keys", large(r.LeasedKeys))},
		{"Redis calls", large(s.Calls) + "/s", fmt.Sprintf("%s for a check", console.Number(s.CallsPerCheck))},
		{"Redis servers", strconv.Itoa(s.ShardsNeeded), fmt.Sprintf("needed, %.2f busy cores; with %s each is %s busy", s.Cores, console.Figure(s.Shards), console.Percent(s.Busy))},
		{"Redis memory", inBytes(s.ShardBytes), fmt.Sprintf("in each server, %s keys in all", large(s.Keys))},
		{"to leaders", inBytes(n.WAN.Up) + "/s", inBytes(n.WAN.Down) + "/s back"},
		{"", "", ""},
		{"COORDINATORS", fmt.Sprintf("%d group(s)", k.Ledgers), fmt.Sprintf("%s hot keys, %s move each second", large(k.HotKeys), large(k.Moves))},
		{"leaders", fmt.Sprintf("%.2f cores", k.Cores), fmt.Sprintf("%s key reports/s, %s plans/s", large(k.KeyReports), large(k.Plans))},
		{"heap", inBytes(k.Heap), "of the leaders, their ledgers included"},
		{"log", inBytes(k.Log) + "/s", large(k.Entries) + " entries/s"},
		{"WAN", inBytes(n.WAN.All) + "/s", "all regions, both ways"},
	})
}

// large returns a count as a short text, such as 1.2k.
func large(f float64) string { return scaled(f, 1000, []string{"", "k", "M", "G", "T"}) }

// inBytes returns a number of bytes as a short text, such as 1.2 MiB.
func inBytes(f float64) string {
	return scaled(f, 1024, []string{" B", " KiB", " MiB", " GiB", " TiB"})
}

func scaled(f, step float64, prefixes []string) string {
	i := 0
	for f >= step && i < len(prefixes)-1 {
		f /= step
		i++
	}
	decimals := 0
	if f < 99.5 {
		decimals = 1
	}
	return strings.TrimSuffix(strconv.FormatFloat(f, 'f', decimals, 64), ".0") + prefixes[i]
}
