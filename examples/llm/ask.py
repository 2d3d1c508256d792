"""Chats with the target without an end, and prints one line for each release that answers: python3 ask.py [URL]"""

import json
import sys
import time
import urllib.error
import urllib.request

PAUSE = 0.01


def chat(url):
    """Asks once, and returns the release that answered and the seconds until its first word; None when nothing serves yet."""
    body = json.dumps({"messages": [{"role": "user", "content": "The model"}], "max_tokens": 8, "stream": True}).encode()
    request = urllib.request.Request(url + "/v1/chat/completions", body, {"Content-Type": "application/json"})
    began, first = time.monotonic(), None
    try:
        with urllib.request.urlopen(request, timeout=30) as answer:
            release = answer.headers["X-Sluice-Release"]
            for line in answer:
                if first is None and b'"content": "' in line and b'"content": ""' not in line:
                    first = time.monotonic() - began
    except (urllib.error.URLError, OSError):
        return None
    return release, first


def main():
    url = sys.argv[1] if len(sys.argv) > 1 else "http://127.0.0.1:8092"
    known = set()
    while True:
        answered = chat(url)
        if answered is None:
            time.sleep(0.2)
            continue
        release, first = answered
        if release not in known:
            known.add(release)
            print(f"release {release} answers, its first word after {1000 * (first or 0):.0f} ms", flush=True)
        time.sleep(PAUSE)


if __name__ == "__main__":
    main()
