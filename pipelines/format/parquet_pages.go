package format

import (
	"bufio"
	"io"
	"strings"

	"github.com/parquet-go/parquet-go/encoding/thrift"
	"github.com/parquet-go/parquet-go/format"

	"github.com/sluiceml/sluice/pipelines/rows"
)

// maxPage bounds the size of a page when it is decompressed: the library holds a page of each column in memory, and what it is decompressed
// from. Writers make pages of about 1 MB, or of a few rows if these are larger. Tests replace it.
var maxPage int64 = 128 << 20

// checkPages rejects a row group with a page that is too large. A few bytes can be compressed to hundreds of megabytes.
func (f *openedParquet) checkPages(group int) error {
	for _, column := range f.columns[group] {
		meta := &column.MetaData
		if f.from.file.IsObject() && meta.TotalUncompressedSize <= maxPage { // each read of an object is a request
			continue
		}
		at := meta.DataPageOffset
		if first := meta.DictionaryPageOffset; first > 0 {
			at = min(at, first)
		}
		for end := at + meta.TotalCompressedSize; at < end; {
			size, next, err := f.pageAt(at, end)
			if err != nil {
				return nil //nolint:nilerr // said when the page is read
			}
			if size > maxPage {
				return rows.Reject(rows.ReasonDamaged, "a page of the column %s has %d KiB when it is decompressed, and the maximum is %d KiB",
					strings.Join(meta.PathInSchema, "."), size>>10, maxPage>>10)
			}
			at = next
		}
	}
	return nil
}

// pageAt returns the decompressed size of the page at an offset of a column chunk that has an end, and the offset of the next.
func (f *openedParquet) pageAt(at, end int64) (size, next int64, err error) {
	section := &countedReader{r: io.NewSectionReader(f.from, at, end-at)}
	buffered := bufio.NewReaderSize(section, 512)
	var header format.PageHeader
	if err := thrift.NewDecoder((&thrift.CompactProtocol{}).NewReader(buffered)).Decode(&header); err != nil {
		return 0, 0, err
	}
	if header.CompressedPageSize < 0 {
		return 0, 0, io.ErrUnexpectedEOF
	}
	return int64(header.UncompressedPageSize), at + section.n - int64(buffered.Buffered()) + int64(header.CompressedPageSize), nil
}
