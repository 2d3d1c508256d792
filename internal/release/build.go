package release

import (
	"debug/elf"
	"encoding/hex"
)

// Build identifies this build, also among builds of the same release: it is the ID that the linker derives from its input. It is empty if
// the program has no such ID.
//
// Without it, Temporal's SDK would identify a worker by a hash of the program's file. Reading the whole file takes longer than everything
// else that a worker does before it polls.
func Build() string {
	program, err := elf.Open("/proc/self/exe")
	if err != nil {
		return ""
	}
	defer program.Close() //nolint:errcheck // it was only read
	return buildID(program)
}

// buildID reads the GNU build ID: an ELF note, whose header has the lengths of the note's name and of the ID.
func buildID(program *elf.File) string {
	section := program.Section(".note.gnu.build-id")
	if section == nil {
		return ""
	}
	const header, name = 12, 4 // "GNU\0"
	note, err := section.Data()
	if err != nil || len(note) <= header+name {
		return ""
	}
	id := note[header+name:]
	return hex.EncodeToString(id[:min(len(id), int(program.ByteOrder.Uint32(note[4:])))])
}
