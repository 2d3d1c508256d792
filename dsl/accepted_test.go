package dsl

import (
	"os"
	"slices"
	"strings"
	"testing"
)

// TestAccepted holds the promise that an open run goes on under a build with more rules. testdata/accepted.txt names the documents of
// testdata/broken that the build of 7a36152e accepted.
func TestAccepted(t *testing.T) {
	data, err := os.ReadFile("testdata/accepted.txt")
	if err != nil {
		t.Fatal(err)
	}
	left := strings.Fields(string(data))
	var refused int
	for _, c := range brokenCases(t) {
		fresh, _ := Compile(c.pipeline, c.env, nearlyAll{})
		c.pipeline.Accepted, c.env.Accepted = true, true
		program, findings := Compile(c.pipeline, c.env, nearlyAll{})
		i := slices.Index(left, c.name)
		if i >= 0 {
			left = slices.Delete(left, i, i+1)
		}
		if i >= 0 && fresh == nil {
			refused++
		}
		if program == nil && (i >= 0 || fresh != nil) {
			t.Errorf("%s was accepted, and now:\n%s", c.name, findings.Text(false))
		}
	}
	if len(left) > 0 {
		t.Errorf("not in the corpus: %v", left)
	}
	if refused < 100 {
		t.Errorf("%d documents are refused when they are new: too few to show anything", refused)
	}
}
