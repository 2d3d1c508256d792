package contract

// Typed search attributes, by which runs are found in Temporal.
const (
	SearchPipeline = "SluicePipeline"
	SearchStep     = "SluiceStep"
	SearchVerdict  = "SluiceVerdict"
	SearchModel    = "SluiceModel"   // names that the run published models under
	SearchDataset  = "SluiceDataset" // the same of datasets
)
