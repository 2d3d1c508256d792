package contract

import "go.temporal.io/api/enums/v1"

// Typed search attributes, by which runs are found in Temporal.
const (
	SearchPipeline = "SluicePipeline"
	SearchStep     = "SluiceStep"
	SearchVerdict  = "SluiceVerdict"
	SearchModel    = "SluiceModel"   // names that the run published models under
	SearchDataset  = "SluiceDataset" // the same of datasets
)

// SearchAttributes are their types.
func SearchAttributes() map[string]enums.IndexedValueType {
	return map[string]enums.IndexedValueType{
		SearchPipeline: enums.INDEXED_VALUE_TYPE_KEYWORD,
		SearchStep:     enums.INDEXED_VALUE_TYPE_KEYWORD,
		SearchVerdict:  enums.INDEXED_VALUE_TYPE_KEYWORD,
		SearchModel:    enums.INDEXED_VALUE_TYPE_KEYWORD_LIST,
		SearchDataset:  enums.INDEXED_VALUE_TYPE_KEYWORD_LIST,
	}
}
