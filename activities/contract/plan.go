package contract

// Action is what a run would do with a step.
type Action string

// What a run may do with a step.
const (
	ActionRun        Action = "runs"
	ActionRunChanged Action = "changed" // runs, since what it would do has changed since it was last done
	ActionReuse      Action = "cached"
	ActionSkip       Action = "skipped"
	ActionNone       Action = "not run"
)

// StepPlan is what a run would do with a step, as far as that can be told before it starts.
type StepPlan struct {
	Action Action `json:"state"`
	// From is the run whose result would be taken over, or that Changed compares with.
	From string `json:"from,omitempty"`
	// Changed are the parts of what the step would do that have changed: keys of its spec, inputs.NAME, env.NAME, files.
	Changed []string `json:"changed,omitempty"`
	// Files are the first few workspace files that have changed, where `files` is among Changed.
	Files []string `json:"files,omitempty"`
	// ResumeRun is the run whose training would go on, after ResumeStep; empty: none.
	ResumeRun  string `json:"resume_run,omitempty"`
	ResumeStep int64  `json:"resume_step,omitempty"`
	// After are steps that run before this one: more is known only when they have ended.
	After []string `json:"after,omitempty"`
	// Reason is one line.
	Reason string `json:"reason,omitempty"`
	// Of is how many instances a fanned-out step would have, where that is known, Cached how many of them would be taken over.
	Of     int `json:"of,omitempty"`
	Cached int `json:"cached,omitempty"`
	// Seconds and CostUSD are estimates from earlier runs; 0 when there are none, or nothing would be done.
	Seconds float64 `json:"seconds,omitempty"`
	CostUSD float64 `json:"cost_usd,omitempty"`
}

// Plan is what a run would do.
type Plan struct {
	// Given are the parameters that were given for it, by hand or by the run it is against.
	Given map[string]string
	Steps map[string]StepPlan
	// Seconds and CostUSD are estimates of the whole run, of those steps that have run before.
	Seconds float64
	CostUSD float64
	// Open is the open run of the pipeline that this one would resume, or else the newest; nil when there is none.
	Open *OpenRun
}

// OpenRun is a run that has not ended.
type OpenRun struct {
	Run string `json:"run"`
	// Differs says in words what a run would be started with otherwise. Empty: `sluice run` resumes the open one.
	Differs []string `json:"differs,omitempty"`
}
