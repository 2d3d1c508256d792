package contract

// Typed search attributes, by which runs are found in Temporal.
const (
	SearchPipeline = "SluicePipeline"
	SearchStep     = "SluiceStep"
	SearchVerdict  = "SluiceVerdict" // a spec.Status, or VerdictRolledBack
	SearchModel    = "SluiceModel"   // names that the run published models under
	SearchDataset  = "SluiceDataset" // the same of datasets
)

// VerdictRolledBack is the SearchVerdict of a run that failed after one of its releases was rolled back.
const VerdictRolledBack = "rolled_back"
