package embedded

import (
	"go.temporal.io/api/enums/v1"

	"github.com/sluiceml/sluice/activities/contract"
)

// SearchAttributes are the types of the search attributes, by which runs are found in Temporal.
func SearchAttributes() map[string]enums.IndexedValueType {
	return map[string]enums.IndexedValueType{
		contract.SearchPipeline: enums.INDEXED_VALUE_TYPE_KEYWORD,
		contract.SearchStep:     enums.INDEXED_VALUE_TYPE_KEYWORD,
		contract.SearchVerdict:  enums.INDEXED_VALUE_TYPE_KEYWORD,
		contract.SearchModel:    enums.INDEXED_VALUE_TYPE_KEYWORD_LIST,
		contract.SearchDataset:  enums.INDEXED_VALUE_TYPE_KEYWORD_LIST,
	}
}
