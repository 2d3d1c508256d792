//go:build cgo

package nvml

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"github.com/sluiceml/sluice/training/gpu"
)

// usage is what sluice-gpu says to who starts it by hand.
const usage = `sluice-gpu reads NVIDIA GPUs for sluice and sluice-agent.

  sluice-gpu inventory                          print the GPUs of this machine, as JSON
  sluice-gpu watch [--every 5s] [--gpus UUIDS]  print readings and errors, one line of JSON each, until stopped

UUIDS are those of GPUs and MIG instances, separated by commas (default: all). Programs that read the output request its format with
--format; this version only supports %d.
`

// Main is the program sluice-gpu. What it prints on out is for package gpu/helper to read, in gpu.Format.
func Main(ctx context.Context, api nvml.Interface, args []string, out io.Writer) error {
	if len(args) == 0 || slices.ContainsFunc(args, func(arg string) bool { return slices.Contains([]string{"help", "-h", "-help", "--help"}, arg) }) {
		_, err := fmt.Fprintf(out, usage, gpu.Format)
		return err
	}
	command, args := args[0], args[1:]
	flags := flag.NewFlagSet(command, flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	format := flags.Int("format", gpu.Format, "")
	lines := json.NewEncoder(out)
	switch command {
	case "inventory":
		if err := parse(flags, args, format); err != nil {
			return err
		}
		return printInventory(api, lines)
	case "watch":
		every := flags.Duration("every", 5*time.Second, "")
		named := flags.String("gpus", "", "")
		if err := parse(flags, args, format); err != nil {
			return err
		}
		if *every <= 0 {
			return fmt.Errorf("--every %v is not a positive duration", *every)
		}
		var uuids []string
		if *named != "" {
			uuids = strings.Split(*named, ",")
		}
		d, err := Open(api)
		if err != nil {
			return err
		}
		err = d.Watch(ctx, uuids, *every, func(r gpu.Report) error { return lines.Encode(r) })
		return errors.Join(err, d.Close())
	}
	return fmt.Errorf("unknown command %q: see sluice-gpu --help", command)
}

// parse reads the flags of a command. Who asks says in which format it reads, since the two programs may be of different builds.
func parse(flags *flag.FlagSet, args []string, format *int) error {
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() > 0 {
		return fmt.Errorf("%s takes no argument %q", flags.Name(), flags.Arg(0))
	}
	if *format != gpu.Format {
		return fmt.Errorf("it prints format %d, but format %d was requested: its version differs from that of the calling program; install the same version of both", gpu.Format, *format)
	}
	return nil
}

func printInventory(api nvml.Interface, lines *json.Encoder) error {
	d, err := Open(api)
	if errors.Is(err, ErrAbsent) {
		return lines.Encode(gpu.Inventory{Source: gpu.SourceNVML, Absent: err.Error()})
	} else if err != nil {
		return err
	}
	inv, err := d.Inventory()
	if err := errors.Join(err, d.Close()); err != nil {
		return err
	}
	return lines.Encode(inv)
}
