package sluice_test

import (
	"cmp"
	"fmt"
	"go/ast"
	"go/constant"
	"go/parser"
	"go/token"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"
)

// figures are the numbers in marked sentences that are constants of the code: the words for one, as the sentence or its row of a table has
// them, and the constant that they are the value of. What is done by it is held by the tests that name the sentence.
var figures = []struct{ mark, words, constant string }{
	{"docs/data.md#p-clean-cache-size", "10 GiB", "activities.maxCleanCache"},
	{"docs/data.md#p-exec-late", "10 s", "pipelines/program.stopGrace"},
	{"docs/data.md#p-distinct", "1,000 values", "pipelines/profile.maxValues"},
	{"docs/ec2.md#p-boot", "twenty minutes", "dsl/spec.EC2Within"},
	{"docs/ec2.md#p-handover", "15 minutes", "training/ec2.lendLife"},
	{"docs/ec2.md#p-agent-idle", "15 minutes", "training/ec2.idleLimit"},
	{"docs/ec2.md#p-instance-gone", "five seconds", "training/ec2.lookEvery"},
	{"docs/ec2.md#p-spot-every", "five seconds", "training/agent.spotEvery"},
	{"docs/encryption.md#p-compressed", "1 KiB", "connect/codec.compressFrom"},
	{"docs/encryption.md#p-moved-to-store", "128 KiB", "connect/codec.storeFrom"},
	{"docs/gpus.md#p-gpu-read", "5 seconds", "training/agent.readEvery"},
	{"docs/gpus.md#p-gpu-helper-again", "a minute", "training/gpu/helper.silenceLimit"},
	{"docs/gpus.md#p-gpu-helper-again", "30 seconds", "training/agent.watchAgain"},
	{"docs/gpus.md#p-gpu-reset", "30 seconds", "workflows/train.faultStop"},
	{"docs/kserve.md#p-ks-no-pods", "45 s", "serving/kserve.patience"},
	{"docs/kserve.md#p-ks-ready", "15 minutes", "serving/kserve.readyWithin"},
	{"docs/kubernetes.md#p-agent-digest", "twelve hours", "training/kubernetes.lent"},
	{"docs/kubernetes.md#p-no-machine", "five minutes", "dsl/spec.KubernetesWithin"},
	{"docs/kubernetes.md#p-pool-refuses", "30 s", "training/kubernetes.imagePatience"},
	{"docs/kubernetes.md#p-pod-sigterm", "two minutes", "training/kubernetes.grace"},
	{"docs/kubernetes.md#p-pod-idle", "15 minutes", "training/kubernetes.idleLimit"},
	{"docs/notify.md#p-notify-five-seconds", "5 s", "control.deliverLimit"},
	{"docs/notify.md#p-notify-again", "an hour", "workflows.sendLimit"},
	{"docs/notify.md#p-notify-again", "10 minutes", "internal/notify.maxAfter"},
	{"docs/operations.md#p-alone", "15 minutes", "internal/heartbeat.AloneLimit"},
	{"docs/operations.md#p-ranks-end", "20 s", "training/agent.orphanEvery"},
	{"docs/operations.md#p-cancel-waits", "1 minute", "cmd/sluice/runs.cancelPatience"},
	{"docs/operations.md#p-dies-pool-api", "15 minutes", "training/protocol.Patience"},
	{"docs/operations.md#p-dies-store", "15 minutes", "training/protocol.Patience"},
	{"docs/operations.md#p-dies-vault", "15 minutes", "training/protocol.Patience"},
	{"docs/operations.md#p-dies-while-followed", "10 s", "cmd/sluice/runs.silenceLimit"},
	{"docs/operations.md#p-dies-worker", "10 s", "workflows/durable.HeartbeatTimeout"},
	{"docs/operations.md#p-dies-worker", "20 times", "workflows/durable.LostWorkers"},
	{"docs/operations.md#p-limit-cost", "1 million", "dsl/expr.maxCost"},
	{"docs/operations.md#p-limit-cost", "50 million", "dsl/expr.maxListCost"},
	{"docs/operations.md#p-limit-cost", "100 million", "dsl/expr.maxRowCost"},
	{"docs/operations.md#p-limit-cost", "10 million", "dsl/expr/meter.maxMade"},
	{"docs/operations.md#p-limit-cost", "10,000 instructions", "dsl/expr/meter.maxPattern"},
	{"docs/operations.md#p-limit-document", "512 KiB", "dsl/document.MaxSource"},
	{"docs/operations.md#p-limit-document", "16 KiB", "dsl/decode.maxText"},
	{"docs/operations.md#p-limit-document", "10,000 expressions", "dsl/decode.maxExprs"},
	{"docs/operations.md#p-limit-document", "100 deep", "dsl/decode.maxDepth"},
	{"docs/operations.md#p-limit-steps", "5,000", "dsl.maxSteps"},
	{"docs/operations.md#p-limit-steps", "100 run", "workflows.maxInFlight"},
	{"docs/operations.md#p-limit-instances", "100,000", "dsl/matrix.MaxInstances"},
	{"docs/operations.md#p-limit-instances", "64 at", "dsl/spec.DefaultParallel"},
	{"docs/operations.md#p-limit-children", "8 deep", "dsl.maxGenerations"},
	{"docs/operations.md#p-limit-children", "100 in", "dsl.maxChildren"},
	{"docs/operations.md#p-limit-history", "2,500 events", "workflows/durable.LongHistory"},
	{"docs/operations.md#p-limit-payload", "128 KiB", "connect/codec.storeFrom"},
	{"docs/operations.md#p-limit-payload", "64 MiB", "connect/codec.maxPayload"},
	{"docs/operations.md#p-limit-values", "1 MiB", "internal/script.maxValues"},
	{"docs/operations.md#p-limit-secret", "4 bytes", "internal/secret.minLength"},
	{"docs/operations.md#p-limit-secret", "64 KiB", "internal/secret.maxLength"},
	{"docs/operations.md#p-log-head", "64 MiB", "internal/script.logHead"},
	{"docs/operations.md#p-ninety-days", "90 days", "connect/embedded.retention"},
	{"docs/operations.md#p-store-silent", "30 s", "store.silence"},
	{"docs/operations.md#p-store-waits", "15 minutes", "training/protocol.Patience"},
	{"docs/operations.md#p-terminated-closed", "3 s", "worker.lostEvery"},
	{"docs/operations.md#p-terminated-closed", "15 s", "worker.lostEveryOnCluster"},
	{"docs/pipelines.md#p-child-deep", "8 deep", "dsl.maxGenerations"},
	{"docs/pipelines.md#p-child-deep", "100 children", "dsl.maxChildren"},
	{"docs/pipelines.md#p-group-freed", "30 s", "workflows.firstAsk"},
	{"docs/pipelines.md#p-group-freed", "ten minutes", "workflows.lastAsk"},
	{"docs/pipelines.md#p-group-terminated", "15 s", "workflows.aliveEvery"},
	{"docs/pipelines.md#p-instances-most", "100,000 instances", "dsl/matrix.MaxInstances"},
	{"docs/pipelines.md#p-keep-goes", "20 runs", "activities/engine.keptAtOnce"},
	{"docs/pipelines.md#p-keep-heirs", "five newest", "activities/retention.maxHeirs"},
	{"docs/pipelines.md#p-late-program", "10 s", "activities.grace"},
	{"docs/pipelines.md#p-lost-twenty", "20 times", "workflows/durable.LostWorkers"},
	{"docs/pipelines.md#p-max-parallel", "64 and", "dsl/spec.DefaultParallel"},
	{"docs/pipelines.md#p-side-by-side", "100 at", "workflows.maxInFlight"},
	{"docs/pipelines.md#p-timeout-default", "24 hours", "dsl/spec.DefaultTimeout"},
	{"docs/pipelines.md#p-train-gives-up", "five gangs", "workflows/train.maxFalseStarts"},
	{"docs/pipelines.md#p-train-gives-up", "ten in", "workflows/train.maxFruitless"},
	{"docs/scaling.md#p-thousand", "five minutes", "control.startLimit"},
	{"docs/scripts.md#p-exit-other", "20 lines", "activities.tailLines"},
	{"docs/scripts.md#p-exit-other", "20 lines", "training/agent.tailLines"},
	{"docs/scripts.md#p-five-seconds", "5 seconds", "training/agent.failedLimit"},
	{"docs/scripts.md#p-keep", "every minute", "activities.pruneEvery"},
	{"docs/scripts.md#p-layout-huggingface", "2 seconds", "training/agent.settleTime"},
	{"docs/scripts.md#p-layout-lightning", "2 seconds", "training/agent.settleTime"},
	{"docs/scripts.md#p-memory", "a second", "training/agent.memoryEvery"},
	{"docs/scripts.md#p-outputs-json", "1 MiB", "internal/script.maxValues"},
	{"docs/secrets.md#p-secret-length", "4 bytes", "internal/secret.minLength"},
	{"docs/secrets.md#p-secret-length", "64 KiB", "internal/secret.maxLength"},
	{"docs/secrets.md#p-vault-away", "15 minutes", "training/protocol.Patience"},
	{"docs/secrets.md#p-vault-four-times", "four times", "internal/secret.tries"},
	{"docs/security.md#p-gateway-bytes", "16 MiB", "serving/gateway.maxBody"},
	{"docs/security.md#p-gateway-bytes", "128 MiB", "serving/gateway.maxBodies"},
	{"docs/security.md#p-gateway-minute", "a minute", "serving/gateway.bodyTimeout"},
	{"docs/security.md#p-gateway-slow-clients", "256 inference", "serving/gateway.maxInFlight"},
	{"docs/rollouts.md#p-ro-sticky-bound", "64,000 cells", "serving/stats.Cells"},
	{"docs/rollouts.md#p-ro-sticky-bound", "16,777,216 marks", "serving/gateway.keyMarks"},
	{"docs/serving.md#p-batch-target", "10 s", "serving/batch.window"},
	{"docs/serving.md#p-access-bounded", "4,096 lines", "serving/access.queueSize"},
	{"docs/serving.md#p-warm-all", "five requests", "serving/gateway.warmUps"},
	{"docs/serving.md#p-warm-rows", "16 rows", "serving/gateway.warmUpRows"},
	{"docs/serving.md#p-mirror-bounded", "256 of", "serving/gateway.mirrorQueue"},
	{"docs/serving.md#p-mirror-bounded", "64 MiB", "serving/gateway.mirrorBytes"},
	{"docs/training.md#p-deadline-start", "20 minutes", "dsl/spec.EC2Within"},
	{"docs/training.md#p-deadline-start", "5 minutes", "dsl/spec.KubernetesWithin"},
	{"docs/training.md#p-retry-for", "30 minutes", "activities.retryFor"},
	{"docs/training.md#p-hang-after", "10 minutes", "training/agent.stallFloor"},
	{"docs/training.md#p-hang-after", "30 times", "training/agent.stallFactor"},
	{"docs/training.md#p-hang-stacks", "20 seconds", "training/agent.stacksLimit"},
	{"docs/training.md#p-hang-startup", "1 hour", "training/agent.startupLimit"},
	{"docs/training.md#p-ten-in-a-row", "10 in", "workflows/train.maxFruitless"},
	{"docs/triggers.md#p-look-limit", "1 minute", "workflows.lookTimeout"},
	{"docs/triggers.md#p-look-limit", "45 s", "activities/watch.listTime"},
	{"docs/triggers.md#p-most-objects", "100,000 objects", "activities/watch.maxObjects"},
	{"docs/triggers.md#p-version-once", "1,000", "activities/watch.maxFiles"},
	{"docs/triggers.md#p-watch-back", "5 minutes", "connect/schedule.watchEvery"},
	{"docs/triggers.md#p-watch-paused", "5 minutes", "connect/schedule.watchEvery"},
}

// TestFigures holds the numbers of the docs to the constants of the code.
func TestFigures(t *testing.T) {
	pages := map[string]string{}
	for _, f := range figures {
		page, id, _ := strings.Cut(f.mark, "#")
		if pages[page] == "" {
			source, err := os.ReadFile(page)
			if err != nil {
				t.Fatal(err)
			}
			pages[page] = string(source)
		}
		want, err := figure(f.words)
		if err != nil {
			t.Errorf("%s: %v", f.mark, err)
			continue
		}
		got, err := constantOf(f.constant)
		switch {
		case err != nil:
			t.Errorf("%s: %v", f.mark, err)
		case !strings.Contains(passageAt(pages[page], id), f.words):
			t.Errorf("%s does not say %q any more; %s is %d", f.mark, f.words, f.constant, got)
		case got != want:
			t.Errorf("%s says %q, which is %d; %s is %d", f.mark, f.words, want, f.constant, got)
		}
	}
}

// passageAt is the row of a table that a mark stands in, or what stands behind the mark in its paragraph.
func passageAt(text, id string) string {
	before, rest, ok := strings.Cut(text, `<a id="`+id+`"></a>`)
	if !ok {
		return ""
	}
	end := "\n\n"
	if row := before[strings.LastIndexByte(before, '\n')+1:]; strings.HasPrefix(row, "|") {
		rest, end = row+rest, "\n"
	}
	rest, _, _ = strings.Cut(rest, end)
	return strings.Join(strings.Fields(mark.ReplaceAllString(rest, "")), " ")
}

var figureWords = regexp.MustCompile(`^(?:([0-9][0-9,]*|[a-z]+) ?)?([A-Za-z]*)$`)

// figure is the number that some words name; a time is in nanoseconds, a size in bytes.
func figure(words string) (int64, error) {
	m := figureWords.FindStringSubmatch(words)
	if m == nil {
		return 0, fmt.Errorf("%q is no figure", words)
	}
	n, known := map[string]int64{
		"": 1, "a": 1, "an": 1, "every": 1, "two": 2, "three": 3, "four": 4, "five": 5, "seven": 7, "eight": 8, "ten": 10, "twelve": 12, "twenty": 20,
	}[m[1]]
	if !known {
		var err error
		if n, err = strconv.ParseInt(strings.ReplaceAll(m[1], ",", ""), 10, 64); err != nil {
			return 0, fmt.Errorf("%q is no figure", words)
		}
	}
	unit := map[string]int64{
		"s": int64(time.Second), "second": int64(time.Second), "minute": int64(time.Minute), "min": int64(time.Minute),
		"h": int64(time.Hour), "hour": int64(time.Hour), "day": int64(24 * time.Hour), "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30,
		"million": 1_000_000,
	}
	return n * cmp.Or(unit[strings.TrimSuffix(m[2], "s")], unit[m[2]], 1), nil
}

// constantOf is the value of a constant, named by the folder of its package, a dot and its name.
func constantOf(where string) (int64, error) {
	dir, name := strings.TrimSuffix(where, path.Ext(where)), strings.TrimPrefix(path.Ext(where), ".")
	v, err := lookUp(dir, name)
	if err != nil {
		return 0, err
	}
	n, exact := constant.Int64Val(constant.ToInt(v))
	if !exact {
		return 0, fmt.Errorf("%s is %s, and no whole number", where, v)
	}
	return n, nil
}

// lookUp reads a constant, or a variable that is set to one where it is declared, from the source.
func lookUp(dir, name string) (constant.Value, error) {
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		return nil, err
	}
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
		if err != nil {
			return nil, err
		}
		for _, declared := range parsed.Decls {
			group, ok := declared.(*ast.GenDecl)
			if !ok {
				continue
			}
			for _, s := range group.Specs {
				values, ok := s.(*ast.ValueSpec)
				if !ok {
					continue
				}
				for i, n := range values.Names {
					if n.Name == name && i < len(values.Values) {
						return value(dir, parsed, values.Values[i])
					}
				}
			}
		}
	}
	return nil, fmt.Errorf("%s has no constant %s", dir, name)
}

// value computes a constant expression.
func value(dir string, file *ast.File, expr ast.Expr) (constant.Value, error) {
	switch e := expr.(type) {
	case *ast.BasicLit:
		return constant.MakeFromLiteral(e.Value, e.Kind, 0), nil
	case *ast.ParenExpr:
		return value(dir, file, e.X)
	case *ast.Ident:
		return lookUp(dir, e.Name)
	case *ast.CallExpr: // a conversion
		if len(e.Args) == 1 {
			return value(dir, file, e.Args[0])
		}
	case *ast.BinaryExpr:
		x, err := value(dir, file, e.X)
		if err != nil {
			return nil, err
		}
		y, err := value(dir, file, e.Y)
		if err != nil {
			return nil, err
		}
		if e.Op == token.SHL {
			by, _ := constant.Uint64Val(y)
			return constant.Shift(x, e.Op, uint(by)), nil
		}
		return constant.BinaryOp(x, e.Op, y), nil
	case *ast.SelectorExpr:
		of, ok := e.X.(*ast.Ident)
		if !ok {
			break
		}
		if of.Name == "time" {
			unit, err := time.ParseDuration(map[string]string{"Millisecond": "1ms", "Second": "1s", "Minute": "1m", "Hour": "1h"}[e.Sel.Name])
			return constant.MakeInt64(int64(unit)), err
		}
		for _, imported := range file.Imports {
			from, err := strconv.Unquote(imported.Path.Value)
			if err != nil {
				return nil, err
			}
			if ours, ok := strings.CutPrefix(from, "github.com/sluiceml/sluice/"); ok && path.Base(from) == of.Name {
				return lookUp(ours, e.Sel.Name)
			}
		}
	}
	return nil, fmt.Errorf("%s: %T is no constant expression that this test can read", dir, expr)
}
