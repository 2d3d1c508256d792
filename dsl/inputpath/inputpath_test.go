package inputpath

import "testing"

func TestReplace(t *testing.T) {
	mail := Token("mail", "sha256:ab")
	if !IsIn(mail+"/train") || IsIn("/train") {
		t.Error("a path with a token is not told from one without")
	}
	for path, within := range map[string]bool{mail: true, mail + "/a/*.jsonl": true, mail + "/a..b": true, mail + "/a/../../b": false, "/data/" + mail: false} {
		if Within(path) != within {
			t.Errorf("%s is within its input: %v", path, !within)
		}
	}
	got, err := Replace("--data="+mail+"/train:"+mail, map[string]string{"mail": "/in/mail"})
	if err != nil || got != "--data=/in/mail/train:/in/mail" {
		t.Errorf("%q, %v", got, err)
	}
	if _, err := Replace(mail, map[string]string{"other": "/x"}); err == nil {
		t.Error("a token nobody can replace went through")
	}
}
