package main

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"

	"github.com/sluiceml/sluice/bench/internal/compare"
	"github.com/sluiceml/sluice/pipelines/text/ngram"
)

// The parameters of a Deduplicate by minhash, as by default.
const (
	runWords, bands, bandRows = 5, 14, 8
	threshold                 = 0.72
)

// sampled is how many documents are compared each with each.
const sampled = 5000

// minhash measures near deduplication of documents of about 2 KB, and how its pairs agree with a comparison of each with each.
func (b bench) minhash(ctx context.Context) error {
	in := filepath.Join(b.dir, "near")
	if err := generate(in, b.mib, 2000, true); err != nil {
		return err
	}
	defer os.RemoveAll(in)
	if err := b.agreement(in); err != nil {
		return err
	}
	mb, err := sizeOf(in)
	if err != nil {
		return err
	}
	all, err := b.measure(ctx, "minhash", in, b.sluice("minhash"))
	if err != nil {
		return err
	}
	ours := all[""]
	return compare.Show(b.samples,
		figure("minhash_mb_s", mb/ours.seconds, "MB/s", ""),
		figure("minhash_mb_s_core", mb/ours.cpu, "MB/s", ""),
		figure("minhash_rss_mb", ours.mib, "MiB", ""),
	)
}

// agreement shows precision and recall of the pairs that share a band and are alike by their hashed shingles, against all pairs that are
// alike by the words themselves.
func (b bench) agreement(in string) error {
	texts, err := firstTexts(in, sampled)
	if err != nil {
		return err
	}
	h := ngram.NewHasher(runWords, bands, bandRows)
	var sets [][]uint64
	var hashes [][]uint32
	var sizes []int
	holders := map[string][]int{} // of each run of words
	var alike, found, wrong int
	for i, text := range texts {
		sets = append(sets, ngram.Set(h.Shingles(nil, text)))
		hashes = append(hashes, h.Bands(nil, sets[i]))
		runs := runsOf(text)
		sizes = append(sizes, len(runs))
		shared := map[int]int{} // with each earlier document: with all others it is nothing
		for run := range runs {
			for _, j := range holders[run] {
				shared[j]++
			}
			holders[run] = append(holders[run], i)
		}
		for j := range i {
			truth := float64(shared[j])/float64(sizes[i]+sizes[j]-shared[j]) >= threshold
			ours := shareBand(hashes[i], hashes[j]) && ngram.Jaccard(sets[i], sets[j]) >= threshold
			switch {
			case truth && ours:
				alike, found = alike+1, found+1
			case truth:
				alike++
			case ours:
				wrong++
			}
		}
	}
	compare.Say("of %d documents %d pairs are alike; %d of them are found, and %d that are not", len(texts), alike, found, wrong)
	return compare.Show(1,
		compare.Figure{Name: "clean/minhash_recall", Value: float64(found) / float64(alike), Unit: "ratio", Against: "exhaustive Jaccard"},
		compare.Figure{Name: "clean/minhash_precision", Value: float64(found) / float64(found+wrong), Unit: "ratio", Against: "exhaustive Jaccard"},
	)
}

// runsOf are the runs of words of a text, as texts.
func runsOf(text string) map[string]bool {
	list := strings.FieldsFunc(strings.ToLower(text), func(r rune) bool {
		return r == 0x200b || r < 0x80 && (r < 0x61 || r > 0x7a) && (r < 0x30 || r > 0x39)
	})
	runs := map[string]bool{}
	for i := 0; i+runWords <= len(list); i++ {
		runs[strings.Join(list[i:i+runWords], " ")] = true
	}
	if len(runs) == 0 {
		runs[strings.Join(list, " ")] = true
	}
	return runs
}

func shareBand(a, b []uint32) bool {
	for i := range a {
		if a[i] == b[i] {
			return true
		}
	}
	return false
}

// firstTexts reads the texts of the first rows of a folder's files.
func firstTexts(dir string, n int) (texts []string, err error) {
	paths, err := filepath.Glob(filepath.Join(dir, "*.jsonl"))
	if err != nil {
		return nil, err
	}
	for _, path := range paths {
		err := eachLine(path, func(line []byte) error {
			var d document
			if len(texts) == n {
				return nil
			}
			err := json.Unmarshal(line, &d)
			texts = append(texts, d.Text)
			return err
		})
		if err != nil || len(texts) == n {
			return texts, err
		}
	}
	return texts, nil
}
