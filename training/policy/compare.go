package policy

import "time"

// Comparison is what the replays of several strategies over the same windows came to.
type Comparison struct {
	Windows int `json:"windows"`
	// OnDemandUSD is what on-demand from the start costs, and BoundUSD what the best costs that meets the deadline (Bound), on the mean.
	OnDemandUSD float64 `json:"on_demand_usd"`
	BoundUSD    float64 `json:"bound_usd"`
	Results     []Mean  `json:"strategies"`
}

// Mean is what one strategy came to, on the mean of all windows.
type Mean struct {
	Strategy    string  `json:"strategy"`
	USD         float64 `json:"usd"`
	Missed      int     `json:"missed"` // windows whose deadline was missed
	Changeovers float64 `json:"changeovers"`
	SpotHours   float64 `json:"spot_hours"`
	StayHours   float64 `json:"on_demand_hours"`
	WaitedHours float64 `json:"waited_hours"`
}

// strategies are what is compared, the policy first.
var strategies = []struct {
	name   string
	decide Strategy
}{
	{"sluice", Decide}, {"greedy", Greedy}, {"uniform_progress", UniformProgress}, {"on_demand", OnDemand},
}

// Compare replays a job with each strategy on every window of the traces.
func Compare(job Job, traces []Trace) Comparison {
	var c Comparison
	for _, t := range traces {
		for _, w := range t.Windows {
			c.BoundUSD += Bound(job, w, t.Gap())
			c.Windows++
		}
	}
	c.BoundUSD /= float64(c.Windows)
	for _, s := range strategies {
		c.Results = append(c.Results, mean(s.name, s.decide, job, traces))
	}
	c.OnDemandUSD = c.Results[len(c.Results)-1].USD
	return c
}

func mean(name string, decide Strategy, job Job, traces []Trace) Mean {
	m := Mean{Strategy: name}
	var spot, stay, waited time.Duration
	n := 0.0
	for _, t := range traces {
		for _, w := range t.Windows {
			out := Replay(decide, job, w, t.Gap())
			m.USD += out.CostUSD
			m.Changeovers += float64(out.Changeovers)
			spot, stay, waited = spot+out.OnSpot, stay+out.OnDemand, waited+out.Waited
			if out.Late > 0 {
				m.Missed++
			}
			n++
		}
	}
	m.USD, m.Changeovers = m.USD/n, m.Changeovers/n
	m.SpotHours, m.StayHours, m.WaitedHours = spot.Hours()/n, stay.Hours()/n, waited.Hours()/n
	return m
}
