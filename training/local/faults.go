package local

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/sluiceml/sluice/training/agent"
	"github.com/sluiceml/sluice/training/gpu"
)

// lookAgain is how often a machine with a broken GPU is looked at, to see whether that has been reset.
const lookAgain = 30 * time.Second

// machineView is what is known of this machine: looked at once, and again and again while something of it changes.
type machineView struct {
	seen    *Machine
	at      time.Time
	changes bool
}

func (v *machineView) look(inspect func() Machine, now time.Time) Machine {
	if v.seen == nil || v.changes && now.Sub(v.at) > lookAgain {
		m := inspect()
		v.seen, v.at = &m, now
	}
	return *v.seen
}

// fault is a line of the file of faults: a GPU that cannot be relied on until it has been reset.
type fault struct {
	gpu.Event
	At time.Time `json:"at"`
	// Boot names the time since the machine was started, as the kernel does: a restart resets all GPUs.
	Boot string `json:"boot"`
}

// bootID is the kernel's name for the time since the machine was started.
func bootID() string {
	raw, _ := os.ReadFile("/proc/sys/kernel/random/boot_id")
	return strings.TrimSpace(string(raw))
}

// clear removes a gang's folder. What its agents say of broken GPUs is remembered first.
func (p *Pool) clear(dir string) error {
	paths, err := filepath.Glob(filepath.Join(dir, "node*", agent.FaultFile))
	if err != nil {
		return err
	}
	for _, path := range paths {
		raw, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		f := fault{At: time.Now().UTC(), Boot: bootID()}
		if err := json.Unmarshal(raw, &f.Event); err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		if err := remember(p.opts.Faults, f); err != nil {
			return fmt.Errorf("remember that a GPU is broken: %w", err)
		}
	}
	return os.RemoveAll(dir)
}

// remember adds a line to the file of faults. Several processes may.
func remember(path string, f fault) error {
	if path == "" {
		return nil
	}
	line, err := json.Marshal(f)
	if err != nil {
		return err
	}
	file, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	_, err = file.Write(append(line, '\n'))
	return errors.Join(err, file.Sync(), file.Close())
}

// faultsOf are the GPUs of an inventory that are not to be used: those that the driver says need a reset, and those with a fault since the
// machine was started. Where the driver said that the GPU needed a reset, and does not any more, it has been reset; where it does not say such
// things the fault counts until the machine is started again, or its line is removed from the file.
// The inventory was taken at a time.
func faultsOf(path string, inv gpu.Inventory, taken time.Time) ([]fault, error) {
	var all []fault
	for _, g := range inv.GPUs {
		if g.Recovery != "" && g.Recovery != gpu.RecoveryNone {
			all = append(all, fault{Event: gpu.Event{XID: xidRecovery, UUID: g.UUID, Index: g.Index, Recovery: g.Recovery}})
		}
	}
	raw, err := os.ReadFile(path)
	if path == "" || errors.Is(err, fs.ErrNotExist) {
		return all, nil
	} else if err != nil {
		return nil, err
	}
	boot := bootID()
	for lines := bufio.NewScanner(bytes.NewReader(raw)); lines.Scan(); {
		var f fault
		if err := json.Unmarshal(lines.Bytes(), &f); err != nil || f.Boot != boot {
			continue // a half-written line is of a machine that went down
		}
		g, ok := inv.GPU(f.Index)
		needed := f.Recovery != "" && f.Recovery != gpu.RecoveryNone && f.At.Before(taken)
		if !ok || needed && g.Recovery == gpu.RecoveryNone {
			continue // it is gone from the bus, or has been reset
		}
		if !slices.ContainsFunc(all, func(other fault) bool { return other.Index == f.Index }) {
			all = append(all, f)
		}
	}
	return all, nil
}

// xidRecovery is the XID that says that the driver wants a GPU reset.
const xidRecovery = 154

// withoutFaulty is what is left of the machine without its broken GPUs, and their instances.
func (m Machine) withoutFaulty(broken []fault) Machine {
	m.taken = slices.Clone(m.taken)
	for _, u := range m.GPUs.Units() {
		if slices.ContainsFunc(broken, func(f fault) bool { return f.Index == u.GPU }) {
			m.taken = append(m.taken, u.UUID)
		}
	}
	return m
}

// explain says which GPUs are not to be had because they are broken.
func explain(broken []fault) string {
	if len(broken) == 0 {
		return ""
	}
	var events []string
	for _, f := range broken {
		events = append(events, f.String())
	}
	return "; out of use: " + strings.Join(events, ", ")
}
