package pipfile

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestIncluded(t *testing.T) {
	const text = "numpy==2.0\n-r more.txt\n  --constraint=../limits.txt\n-c\n--requirement sub/other.txt # why\n-r \\\n  next.txt\ntorch --hash=sha256:00\n"
	want := []string{"envs/more.txt", "limits.txt", "envs/sub/other.txt", "envs/next.txt"}
	if diff := cmp.Diff(want, Included("envs/base.txt", []byte(text))); diff != "" {
		t.Error(diff)
	}
}

func TestLocal(t *testing.T) {
	for text, want := range map[string]string{
		"numpy==2.0\n-e .\n":                 "-e .",
		"--editable=src # ours\n":            "--editable=src",
		"-e.\n":                              "-e.",
		"--pre --edit src\n":                 "--pre --edit src",
		"  ./dist/a.whl\n../other\n":         "./dist/a.whl",
		"/opt/wheels/a.whl\n":                "/opt/wheels/a.whl",
		"dist/a-1.0-py3-none-any.whl\n":      "dist/a-1.0-py3-none-any.whl",
		"a-1.0.tar.gz\n":                     "a-1.0.tar.gz",
		"A-1.0.ZIP\n":                        "A-1.0.ZIP",
		"a-1.0.tgz[fast]\n":                  "a-1.0.tgz[fast]",
		"a-1.0.tar.xz; python_version<'4'\n": "a-1.0.tar.xz; python_version<'4'",
		"a-1.0.whl --hash=sha256:00\n":       "a-1.0.whl --hash=sha256:00",
		"libs/mine\n":                        "libs/mine", // a folder, if it is one
		"a @ file:///wheels/a.whl\n":         "a @ file:///wheels/a.whl",
		"a[x]@file:a.whl ; os_name=='nt'\n":  "a[x]@file:a.whl ; os_name=='nt'",
		"FILE:///wheels/a.whl\n":             "FILE:///wheels/a.whl",
		"a @ git+file:///src/a\n":            "a @ git+file:///src/a",
		"${PWD}/dist/a.whl\n":                "${PWD}/dist/a.whl",
		"--find-links wheels\n":              "--find-links wheels",
		"--f wheels\n":                       "--f wheels",
		"--find-links='wheels'\n":            "--find-links='wheels'",
		"--no-index -f wheels\na\n":          "--no-index -f wheels",
		"-fwheels\n":                         "-fwheels",
		"-f \\\r\n  wheels\r\n":              "-f   wheels",
		"--index-url file:///simple\n":       "--index-url file:///simple",
		"-i file:simple\n":                   "-i file:simple",
		"--extra-index-url=simple\n":         "--extra-index-url=simple",
		"a; os_name=='nt' \\\n# b\nc.whl\n":  "c.whl",

		"numpy\n\n# -e .\n-r more.txt\n# a.whl \\\nb\n":                   "",
		"a @ https://host/a.whl\n--extra-index-url https://host/simple\n": "",
		"https://host/a.tar.gz#sha256=00\n":                               "",
		"a[x] @ https://host/a.whl ; python_version < '3.12'\n":           "",
		"a @ git+ssh://git@host/a.git@v1#subdirectory=b\n":                "",
		"a @ https://me@host/a;v=1/a.whl; os_name == 'a/b.whl'\n":         "",
		"a==1.0+cpu ; sys_platform == 'linux/2.zip' # b.whl\n":            "",
		"a[x,y]~=1.0,!=1.0.4; extra=='z'\n":                               "",
		"a==1.0 \\\n    --hash=sha256:00 \\\n    --hash=sha256:11\n":      "",
		"-f https://host/whl/torch_stable.html\n-i https://host/simple\n": "",
		"--index-url ${INDEX_URL}/simple\na @ ${MIRROR}/a.whl\n":          "",
		"--no-binary :all:\n--only-binary=a\n--pre --trusted-host host\n": "",
	} {
		if got := Local([]byte(text)); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}
