package format

import (
	"io"

	"github.com/sluiceml/sluice/internal/fault"
	"github.com/sluiceml/sluice/pipelines/avro"
	"github.com/sluiceml/sluice/pipelines/columns"
)

func openAvroShard(w io.Writer, row *columns.Type) (ShardWriter, error) {
	s, err := avro.NewWriter(w, row)
	if err != nil {
		return nil, fault.Errorf(fault.User, "WriteToAvro: %w", err)
	}
	return s, nil
}
