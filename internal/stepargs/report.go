package stepargs

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// maxReport bounds a report in bytes.
const maxReport = 64 << 20

// WriteReport puts what the program says of its work into a folder, beside what it made.
func WriteReport(dir, name string, report any) error {
	raw, err := json.Marshal(report)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, name), raw, 0o600)
}

// ReadReport returns the report in a folder.
func ReadReport[R any](dir, name string) (report R, err error) {
	file, err := os.Open(filepath.Join(dir, name))
	if err != nil {
		return report, err
	}
	defer file.Close()
	return DecodeReport[R](file, name)
}

// DecodeReport reads a report.
func DecodeReport[R any](from io.Reader, name string) (report R, err error) {
	if err := json.NewDecoder(io.LimitReader(from, maxReport)).Decode(&report); err != nil {
		return report, fmt.Errorf("%s: %w", name, err)
	}
	return report, nil
}
