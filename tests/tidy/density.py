#!/usr/bin/env python3
"""Prints how dense the code is, per 1,000 lines of code without tests, comments and blank lines.

python3 tests/tidy/density.py [FOLDER ...]     (src and its folders, unless named)

Only to look at: nothing fails. Five well-known programs of this kind (mini-redis, autopush, linkerd2-proxy, crates.io,
pingora) have 52 to 61 columns at the 90th percentile, no tuple lets, up to 0.4 named closures, and up to 6.4
combinators.
"""

import pathlib
import re
import sys

KINDS = {
    "tuple lets": r"\blet \((?:[^()=]|\([^()]*\))*,(?:[^()=]|\([^()]*\))*\)(?::[^=]+)? = \(",
    "named closures": r"\blet (?:mut )?\w+ = (?:async )?(?:move )?\|",
    "combinators": r"\.(?:and_then|map_or|map_or_else|is_some_and|is_none_or|is_ok_and|is_err_and|or_else|then"
    r"|then_some|unwrap_or_else|ok_or_else|filter_map|transpose)\(",
}


def code_of(folder):
    """The lines of code below a folder, without tests, comments and blank lines."""
    lines = []
    for file in sorted(pathlib.Path(folder).rglob("*.rs")):
        if file.name == "tests.rs" or "tests" in file.parts:
            continue
        text = file.read_text().split("#[cfg(test)]\nmod tests {")[0]
        lines += [line for line in text.splitlines() if line.strip() and not line.strip().startswith("//")]
    return lines


def main():
    folders = sys.argv[1:] or ["src", *sorted(str(path) for path in pathlib.Path("src").iterdir() if path.is_dir())]
    print(f"{'folder':<18}{'lines':>8}{'p90 columns':>13}" + "".join(f"{kind:>16}" for kind in KINDS))
    for folder in folders:
        lines = code_of(folder)
        if not lines:
            continue
        columns = sorted(len(line) for line in lines)[len(lines) * 9 // 10]
        found = [len(re.findall(pattern, "\n".join(lines))) * 1000 / len(lines) for pattern in KINDS.values()]
        print(f"{folder:<18}{len(lines):>8}{columns:>13}" + "".join(f"{each:>16.1f}" for each in found))


main()
