package transform

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/sluiceml/sluice/dsl/transform"
	"github.com/sluiceml/sluice/pipelines/rows"
	"github.com/sluiceml/sluice/pipelines/spill"
	"github.com/sluiceml/sluice/pipelines/text/ngram"
)

// NearDeduplicate is a compiled Deduplicate with the method minhash.
type NearDeduplicate struct {
	ranking
	hasher    *ngram.Hasher
	Threshold float64
}

// maxMinima bounds bands times rows, each of which is a minimum over all words of a text.
const maxMinima = 4096

func compileNearDedup(c transform.Deduplicate, r ranking) (*NearDeduplicate, error) {
	switch {
	case len(r.fields) == 0:
		return nil, errors.New("fields: name at least one, by minhash")
	case c.Ngram < 1 || c.Bands < 1 || c.Rows < 1:
		return nil, errors.New("ngram, bands and rows: each must be at least 1")
	case c.Bands*c.Rows > maxMinima:
		return nil, fmt.Errorf("bands: %d times %d rows are more than %d", c.Bands, c.Rows, maxMinima)
	case c.Threshold <= 0 || c.Threshold > 1:
		return nil, fmt.Errorf("threshold: %s is not between 0%% and 100%%", c.Threshold)
	}
	return &NearDeduplicate{ranking: r, hasher: ngram.NewHasher(c.Ngram, c.Bands, c.Rows), Threshold: float64(c.Threshold)}, nil
}

// Take implements End. All rows are in one group: whether a row is kept depends on all kept rows before it.
func (d *NearDeduplicate) Take(to []byte, r rows.Row) (text []byte, group string, m spill.Mark, err error) {
	if text, m, err = d.rank(to, r); err != nil {
		return nil, "", m, err
	}
	shingles, err := d.Shingles(r)
	if err != nil {
		return nil, "", m, err
	}
	for _, band := range d.hasher.Bands(nil, shingles) {
		m.Bands = binary.BigEndian.AppendUint32(m.Bands, band)
	}
	return text, "0", m, nil
}

// noText replaces null. It has no words, and no string in a row equals it.
const noText = "\xff"

// Shingles returns the hashes of the n-grams of a row's fields.
func (d *NearDeduplicate) Shingles(r rows.Row) ([]uint64, error) {
	texts, err := rows.TextFields(r, d.fields)
	if err != nil {
		return nil, err
	}
	for i, name := range d.fields {
		if r[name] == nil {
			texts[i] = noText
		}
	}
	return d.hasher.Shingles(nil, texts...), nil
}
