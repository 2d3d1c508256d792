package embedded

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"time"

	"go.temporal.io/server/common/config"
	sqliteplugin "go.temporal.io/server/common/persistence/sql/sqlplugin/sqlite"
	"go.temporal.io/server/schema/sqlite"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/sluiceml/sluice/internal/fault"
)

// retention is how long Temporal keeps the history of a closed workflow. The library's own helper would set 24 hours.
const retention = 90 * 24 * time.Hour

// databasePath returns the path of the folder's database. The schema's version is part of the name: Temporal neither checks nor migrates a
// SQLite schema, so a file with another schema would fail late and with obscure errors.
func databasePath(dir string) string {
	return filepath.Join(dir, "temporal-"+sqlite.Version+"-"+sqlite.VisibilityVersion+".db")
}

// openDatabase returns the connection settings of the folder's database, which it creates, with its namespace, when there is none.
func openDatabase(dir string) (*config.SQL, error) {
	path := databasePath(dir)
	if err := refuseOther(dir, path); err != nil {
		return nil, err
	}
	_, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		err = createDatabase(path)
	}
	if err != nil {
		return nil, fmt.Errorf("the database of Temporal %s: %w", path, err)
	}
	// synchronous=FULL: what Temporal has acknowledged must survive a crash of the machine, not only of the process.
	sql := sqlConfig(path, map[string]string{"journal_mode": "wal", "synchronous": "2", "busy_timeout": "10000"})
	ns, err := sqlite.NewNamespaceConfig(clusterName, Namespace, false, SearchAttributes())
	if err != nil {
		return nil, fmt.Errorf("namespace %s: %w", Namespace, err)
	}
	ns.Detail.Config.Retention = durationpb.New(retention)
	if err := sqlite.CreateNamespaces(sql, ns); err != nil {
		return nil, fmt.Errorf("the database of Temporal %s: %w", path, err)
	}
	return sql, nil
}

// refuseOther returns an error if the folder has a database with another schema. A new one would start without the triggers, and with runs
// that never end.
func refuseOther(dir, path string) error {
	found, err := filepath.Glob(filepath.Join(dir, "temporal-*.db"))
	if err != nil {
		return err
	}
	for _, other := range found {
		if other != path {
			return fault.Errorf(fault.Invalid, `%[1]s is the Temporal database of another version of Sluice; this version uses %[2]s, and cannot migrate it
help: finish its open runs with the version that created it, then move %[1]s* out of the folder. Applied triggers are then restored from the store; a run that was still open is lost, and `+"`sluice run`"+` reuses the steps that it had finished`,
				other, filepath.Base(path))
		}
	}
	return nil
}

// createDatabase sets up the schema in a temporary file and renames it to path, so that a process that is killed leaves no partial schema
// behind.
func createDatabase(path string) (err error) {
	beside := path + ".new"
	if err := os.Remove(beside); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	defer func() {
		if err != nil {
			os.Remove(beside)
		}
	}()
	f, err := os.OpenFile(beside, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600) // SQLite gives its other files the same mode
	if err != nil {
		return err
	}
	defer f.Close()
	// One sync at the end replaces the hundred that the statements would make.
	if err := sqlite.SetupSchema(sqlConfig(beside, map[string]string{"journal_mode": "off", "synchronous": "0"})); err != nil {
		return fmt.Errorf("set up the schema: %w", root(err))
	}
	if err := f.Sync(); err != nil {
		return err
	}
	if err := os.Rename(beside, path); err != nil {
		return err
	}
	folder, err := os.Open(filepath.Dir(path))
	if err != nil {
		return err
	}
	defer folder.Close()
	return folder.Sync()
}

// root returns the innermost error. The outer ones quote SQL, which does not help a user whose disk is full.
func root(err error) error {
	for inner := errors.Unwrap(err); inner != nil; inner = errors.Unwrap(inner) {
		err = inner
	}
	return err
}

func sqlConfig(path string, pragmas map[string]string) *config.SQL {
	attributes := map[string]string{"mode": "rw"}
	maps.Copy(attributes, pragmas)
	return &config.SQL{
		PluginName:        sqliteplugin.PluginName,
		DatabaseName:      (&url.URL{Path: path}).EscapedPath(), // it becomes part of a URI
		ConnectAttributes: attributes,
	}
}
