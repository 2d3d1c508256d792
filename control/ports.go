package control

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"

	"github.com/sluiceml/sluice/connect"
	"github.com/sluiceml/sluice/connect/state"
	"github.com/sluiceml/sluice/connect/state/holder"
	"github.com/sluiceml/sluice/dsl"
	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/internal/fault"
)

// checkPorts refuses a pipeline that will release to a target whose port another program has: that would be found when all is trained. A
// cluster's gateways are elsewhere.
func (s *Session) checkPorts(program *dsl.Program) error {
	if connect.ClusterNamed() {
		return nil
	}
	targets := program.Environment().Targets
	for _, name := range slices.Sorted(maps.Keys(program.Targets())) {
		if targets[name].URL() != "" {
			continue // `sluice serve` has its ports
		}
		if errs := CheckPorts(s.Dir, name, targets[name]); len(errs) > 0 {
			return errs[0]
		}
	}
	return nil
}

// CheckPorts says at which ports of a target the Sluice of this state folder cannot listen: another program has it, or the machine does not
// have the address. The errors are invalid ones.
func CheckPorts(stateDir, name string, target spec.Target) (errs []error) {
	own := servedPorts(stateDir)
	for _, port := range target.Ports() {
		if slices.Contains(own, port.Number) {
			continue
		}
		listener, err := net.Listen("tcp", net.JoinHostPort(cmp.Or(port.Host, "127.0.0.1"), strconv.Itoa(port.Number))) //nolint:noctx // it does not wait
		if err != nil {
			help := fmt.Sprintf("stop the program that uses the port, or set another `%s` for the target in the environment", port.Key)
			if errors.Is(err, syscall.EADDRNOTAVAIL) {
				help = "write an address of this machine, or 0.0.0.0 for all of them"
			}
			errs = append(errs, fault.New(fault.Invalid, fmt.Sprintf("the target `%s` cannot listen on port %d: %v\nhelp: %s", name, port.Number, err, help), err))
		} else if err := listener.Close(); err != nil {
			errs = append(errs, err)
		}
	}
	return errs
}

// servedPorts are the ports at which the state folder serves its targets. While nobody holds the folder it serves nothing, whatever its
// last holder left behind.
func servedPorts(stateDir string) []int {
	if _, held, err := holder.Find(stateDir); err != nil || !held {
		return nil
	}
	var served map[string]spec.Target
	raw, err := os.ReadFile(filepath.Join(stateDir, state.TargetsFile))
	if err != nil || json.Unmarshal(raw, &served) != nil {
		return nil
	}
	var ports []int
	for _, target := range served {
		for _, port := range target.Ports() {
			ports = append(ports, port.Number)
		}
	}
	return ports
}
