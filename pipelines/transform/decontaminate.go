package transform

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/sluiceml/sluice/dsl/transform"
	"github.com/sluiceml/sluice/internal/fault"
	"github.com/sluiceml/sluice/pipelines/format"
	"github.com/sluiceml/sluice/pipelines/rows"
	"github.com/sluiceml/sluice/pipelines/text/ngram"
)

// decontaminate compiles a Decontaminate. It drops rows that share words with held-out rows, which are read once for all workers of the
// process.
func (c *Compiled) decontaminate(config transform.Decontaminate, given Deps) error {
	if len(config.Fields) == 0 || len(config.Against) == 0 {
		return errors.New("set `fields`, and the files to compare them with in `against`")
	}
	if config.Ngram < 1 {
		return fmt.Errorf("ngram: %d is not at least 1", config.Ngram)
	}
	set, err := given.Shared.HeldOut(c.name, func() (*ngram.HeldOut, error) { return readHeldOut(config, given.Shared.Settle) })
	if err != nil {
		return err
	}
	c.Apply = func(r rows.Row) error {
		texts, err := rows.TextFields(r, config.Fields)
		if err == nil && slices.ContainsFunc(texts, set.Shares) {
			return rows.ErrDropped
		}
		return err
	}
	return nil
}

// readHeldOut reads the held-out rows. It fails rather than skip invalid ones: rows that are not compared with are not held out.
func readHeldOut(c transform.Decontaminate, settle func([]format.File) ([]format.File, error)) (*ngram.HeldOut, error) {
	if len(c.AgainstFields) == 0 {
		c.AgainstFields = c.Fields
	}
	from, err := format.CompileReadJSON(transform.ReadFromJSON{Path: c.Against})
	if err != nil {
		return nil, err
	}
	files, err := format.Find(context.Background(), from.Paths)
	if err != nil {
		return nil, fmt.Errorf("against: %w", err)
	}
	if files, err = settle(files); err != nil {
		return nil, fmt.Errorf("against: %w", err)
	}
	set := ngram.NewHeldOut(c.Ngram)
	for _, file := range files {
		err := from.Format.Read(context.Background(), format.Piece{File: file, End: file.Size}, func(r format.Record) error {
			if r.Rejected != nil {
				return fmt.Errorf("at byte %d: %w", r.Offset, r.Rejected)
			}
			texts, err := rows.TextFields(r.Row, c.AgainstFields)
			for _, text := range texts {
				err = errors.Join(err, set.Add(text))
			}
			return err
		})
		if errors.Is(err, ngram.ErrFull) {
			err = fmt.Errorf("more than %d runs of %d words; hold out less, or split it among several Decontaminate transforms", ngram.MaxGrams, c.Ngram)
		}
		if err == nil {
			err = file.Unchanged()
		}
		if err != nil {
			return nil, fault.Errorf(fault.User, "against: %s: %w", file.Name, err)
		}
	}
	if set.Grams() == 0 {
		return nil, fault.Errorf(fault.User, "against: there are no words in the fields %q of the held-out rows", c.AgainstFields)
	}
	return set, nil
}
