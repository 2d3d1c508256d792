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
	"sync"
	"syscall"
	"time"

	"github.com/sluiceml/sluice/internal/script"
	"github.com/sluiceml/sluice/training/gpu"
	"github.com/sluiceml/sluice/training/protocol"
)

// inspectEvery is for how long what is known of this machine is relied on: GPUs fall off the bus, break, and are reset.
const inspectEvery = 30 * time.Second

// machineCache is what is known of this machine.
type machineCache struct {
	mu      sync.Mutex
	machine Machine
	at      time.Time // when it was looked at; zero: not yet
}

// get returns it, and as of when it is. GPUs that cannot be listed now are taken to be as they were: the driver may be busy with one of them.
func (c *machineCache) get(inspect func() Machine, now time.Time) (Machine, time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.at.IsZero() || now.Sub(c.at) > inspectEvery {
		m := inspect()
		if m.Unlisted != nil && len(c.machine.GPUs.GPUs) > 0 {
			m.GPUs, m.Unlisted = c.machine.GPUs, nil
		}
		c.machine, c.at = m, now
	}
	return c.machine, c.at
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

// clear removes a gang's folder. What its agents say of broken GPUs is kept first.
func (p *Pool) clear(dir string) error {
	nodes, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	for _, node := range nodes {
		if !strings.HasPrefix(node.Name(), "node") {
			continue
		}
		path := filepath.Join(dir, node.Name(), protocol.FaultFile)
		raw, err := os.ReadFile(path)
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
			continue
		} else if err != nil {
			return err
		}
		f := fault{At: time.Now().UTC(), Boot: bootID()}
		if err := json.Unmarshal(raw, &f.Event); err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		if err := appendFault(p.opts.Faults, f); err != nil {
			return fmt.Errorf("record the broken GPU: %w", err)
		}
	}
	return script.RemoveFolder(dir)
}

// appendFault adds a line to the file of faults. Several processes may.
func appendFault(path string, f fault) error {
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

// readFaults lists the GPUs of an inventory, which is of a time, that are not to be used: those that the driver says need a reset, and those
// with a fault since the machine was started. Where the driver said that the GPU needed a reset, and does not any more, it has been reset;
// where it does not say such things the fault counts until the machine is started again, or its line is removed from the file.
func readFaults(path string, inv gpu.Inventory, taken time.Time) ([]fault, error) {
	var all []fault
	for _, g := range inv.GPUs {
		if g.Recovery != "" && g.Recovery != gpu.RecoveryNone {
			all = append(all, fault{Event: gpu.Event{XID: gpu.XIDRecovery, UUID: g.UUID, Index: g.Index, Recovery: g.Recovery}})
		}
	}
	if path == "" {
		return all, nil
	}
	raw, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
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
		g, ok := inv.Owner(f.UUID)
		needed := f.Recovery != "" && f.Recovery != gpu.RecoveryNone && f.At.Before(taken)
		if !ok || needed && g.Recovery == gpu.RecoveryNone {
			continue // it is gone from the bus, or has been reset
		}
		f.Index = g.Index // which changes when the driver is loaded again
		if !slices.ContainsFunc(all, func(other fault) bool { return other.Index == f.Index }) {
			all = append(all, f)
		}
	}
	return all, nil
}

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

// outOfUse says which GPUs are not to be had because they are lost or broken, and in which file the latter is kept.
func outOfUse(lost []gpu.Lost, broken []fault, path string) string {
	var all []string
	for _, l := range lost {
		all = append(all, fmt.Sprintf("GPU %d does not answer (%s)", l.Index, l.Reason))
	}
	kept := false
	for _, f := range broken {
		all = append(all, f.String())
		kept = kept || f.Boot != ""
	}
	if len(all) == 0 {
		return ""
	}
	said := "; out of use: " + strings.Join(all, ", ")
	if kept {
		said += " (remove its line from " + path + " once that is done)"
	}
	return said
}
